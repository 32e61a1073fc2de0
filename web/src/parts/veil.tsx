// The veil over everything that is no longer known to be true. It is a modal dialog, so that it
// lies above every other one and nothing below it can be pressed or read out.
import { useEffect, useRef } from "preact/hooks";
import { duration, join, utc } from "../format";
import { tryNow } from "../live";
import { connection, freshMs, nowMs, session, stale } from "../store";

export function Veil() {
  const up = stale.value && session.value !== null;
  return up ? <Raised /> : null;
}

function Raised() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
    return () => dialog.current?.close();
  }, []);
  const since = freshMs.value;
  const link = connection.value;
  const wait = link.kind === "lost" ? Math.max(0, Math.ceil((link.nextMs - nowMs.value) / 1000)) : null;
  return (
    <dialog
      ref={dialog} class="veil" role="alertdialog" aria-labelledby="veil-title" aria-describedby="veil-text"
      // Nobody closes it but the next true word from the node.
      onCancel={(event) => event.preventDefault()}
      onClose={() => { if (stale.peek()) dialog.current?.showModal(); }}
    >
      <div class="veil-box">
        <h1 id="veil-title">{since === null ? "Connecting" : "Stale"}</h1>
        <p id="veil-text">
          {since === null
            ? "Nothing is known of the node yet."
            : "No word from the node. What you see below is the past; whether data are being recorded is not known."}
        </p>
        {since === null ? null : (
          <p class="veil-age">
            Last word {join(duration((nowMs.value - since) / 1000))} ago,
            at {utc(since)} UTC by this computer’s clock
          </p>
        )}
        <p class="veil-try">
          {wait === null ? "Waiting for the node." : wait > 0 ? `Next try in ${wait} s.` : "Trying."}
        </p>
        <button type="button" onClick={tryNow}>Try now</button>
      </div>
    </dialog>
  );
}
