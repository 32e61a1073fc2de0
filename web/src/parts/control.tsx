// Run control: the commands that are legal now and no others, each in a place of its own, whatever
// the state, so that none slips under a finger that meant another. What ends the program stands in
// the view of devices.
import { signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { CommandName, CommandResult, LegalCommand, State } from "../api";
import { type Asked, COMMAND_WORDS, standing } from "../asked";
import { ApiError, call, command, get, NoAnswer, reason, uuid } from "../client";
import { duration, join } from "../format";
import { mayOperate, notice, nowMs, session, state } from "../store";
import { Modal, Question, sendByKey } from "./modal";

/** Those of a run first, in large; the places of all are in style/top.css. */
const LARGE: CommandName[] = ["start", "pause", "resume", "stop"];
const SMALL: CommandName[] = ["configure", "arm", "disarm", "reset"];
const SLOW_SECONDS = 10;
const POLL_MS = 500;
/** What was done needs no answer, and is told for so long. */
const NOTICE_MS = 12_000;

const asked = signal<Asked | null>(null);
/** Sent, and no answer yet. */
const sending = signal<CommandName | null>(null);
/** A command was sent from here: the button that had the focus goes. */
let sent = false;

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

const currentRun = (): number | null => state.peek()?.run?.number ?? null;

/** Opens the dialog for a start with an earlier run's configuration. */
export function askStart(configuration: number | null): void {
  asked.value = { name: "start", configuration, run: currentRun() };
}

function tell(result: CommandResult): void {
  const run = result.run === null ? "" : `, run ${result.run}`;
  const took = join(duration(result.seconds));
  notice.value = result.status === "done"
    ? { kind: "done", text: `${COMMAND_WORDS[result.command]}: done${run}, in ${took}, by ${result.who}.` }
    : { kind: "failed", text: `${COMMAND_WORDS[result.command]} failed: ${result.reason ?? "no reason given"}` };
}

async function outcome(begun: CommandResult): Promise<CommandResult> {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    try {
      const result = await get<CommandResult>(`/commands/${begun.request}`);
      if (result.status !== "under_way") return result;
    } catch (error) {
      // A node that has shut down answers nobody any more.
      if (begun.command === "shutdown") return { ...begun, status: "done" };
      throw error;
    }
  }
}

async function send({ name, configuration, run }: Asked, comment: string) {
  asked.value = null;
  sending.value = name;
  sent = true;
  const request = uuid();
  try {
    const result = await command({
      request, command: name, device: null, comment: comment.trim() || null, configuration, run,
    });
    sending.value = null;
    tell(result.status === "under_way" ? await outcome(result) : result);
  } catch (error) {
    const failed = error instanceof ApiError ? error.problem.result : undefined;
    if (failed) tell(failed);
    else {
      // Without an answer nobody knows whether it was done.
      const what = error instanceof NoAnswer ? "may or may not be done" : "was refused";
      notice.value = { kind: "failed", text: `${COMMAND_WORDS[name]} ${what}: ${reason(error)}` };
    }
  } finally {
    sending.value = null;
  }
}

function press(legal: LegalCommand): void {
  const meant = { name: legal.name, configuration: null, run: currentRun() };
  // A start asks for a comment, which is the only time when anybody writes one.
  if (legal.confirm !== null || legal.name === "start") asked.value = meant;
  else void send(meant, "");
}

async function saveRemark(run: number, remark: string): Promise<void> {
  asked.value = null;
  try {
    await call<unknown>("PATCH", `/runs/${run}`, { remark });
    notice.value = { kind: "done", text: `Run ${run}: remark saved.` };
  } catch (error) {
    const why = reason(error);
    notice.value = { kind: "failed", text: `The remark “${remark}” was not saved: ${why}` };
  }
}

/** What becomes of the text. */
function textNote(meant: Asked, over: boolean): string {
  if (over) return "(not sent)";
  return meant.run === null && meant.name !== "start"
    ? "(optional, kept in the audit log: there is no run)" : "(optional, kept with the run)";
}

function Ask({ meant }: { meant: Asked }) {
  const who = session.value;
  const cancel = useRef<HTMLButtonElement>(null);
  const text = useSignal("");
  const leaving = useSignal(false);
  const now = standing(meant, state.value);
  const possible = now.kind === "possible";
  const over = now.kind === "over";
  // Only what is asked about first is dangerous, and that does not change while it is open.
  const danger = useRef(possible && now.confirm !== null).current;
  const words = COMMAND_WORDS[meant.name];
  const typed = text.value.trim();
  const { run } = meant;
  // The button that had the focus may be gone.
  useEffect(() => { if (!possible) cancel.current?.focus(); }, [possible]);
  const close = () => {
    // Whatever closes it: what was sent or saved meanwhile is not asked about.
    if (asked.peek() !== meant) return undefined;
    if (typed !== "") {
      leaving.value = true;
      return false;
    }
    asked.value = null;
    return undefined;
  };
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    if (possible) void send(meant, text.peek());
  };
  return (
    <Modal title={`${words}?`} close={close}>
      <form onSubmit={submit} onKeyDown={sendByKey}>
        {possible
          ? <Consequence meant={meant} confirm={now.confirm} />
          : <p class="consequence" role="alert">{now.text}</p>}
        {meant.configuration === null ? null : <p>With configuration {meant.configuration}.</p>}
        <label>
          Comment <span class="note">{textNote(meant, over)}</span>
          <textarea
            name="comment" rows={2} maxLength={2000} autofocus={!danger} value={text.value}
            onInput={(event) => { text.value = event.currentTarget.value; }}
          />
        </label>
        {over ? null : (
          <p class="note">
            {who && who !== "unknown" ? `Done in the name of ${who.name} (${who.role}). ` : ""}
            Ctrl+Enter sends.
          </p>
        )}
        <div class="buttons">
          <button ref={cancel} type="button" onClick={close} autofocus={danger}>
            {over ? "Close" : "Cancel"}
          </button>
          {over ? null : (
            <button type="submit" class={danger ? "danger" : "go"} disabled={!possible}>
              {words}
            </button>
          )}
          {over && run !== null && typed !== "" ? (
            <button type="button" class="go" onClick={() => void saveRemark(run, typed)}>
              Save as a remark of run {run}
            </button>
          ) : null}
        </div>
      </form>
      {leaving.value ? (
        <Question title="Discard the comment?" text="What you typed was neither sent nor saved."
          yes="Discard" accept={() => { asked.value = null; }}
          refuse={() => { leaving.value = false; }} />
      ) : null}
    </Modal>
  );
}

/** What the node says of the command, and what a reset costs while a run is open. */
function Consequence({ meant, confirm }: { meant: Asked; confirm: string | null }) {
  const costs = meant.name === "reset" && meant.run !== null;
  const itself = /resumes by itself/.test(state.value?.verdict.text ?? "");
  return (
    <>
      {confirm === null ? null : <p class="consequence">{confirm}</p>}
      {costs ? (
        <p>
          The run does not go on after a reset, and data that are not written yet are lost.
          {itself ? " Without a reset recording resumes by itself once it can." : ""}
        </p>
      ) : null}
    </>
  );
}

function UnderWay({ now }: { now: State }) {
  const under = now.under_way;
  const name = under?.command ?? sending.value;
  if (!name) return null;
  const seconds = under ? Math.max(0, (nowMs.value - Date.parse(under.since)) / 1000) : 0;
  return (
    <div class="under-way" role="status">
      <strong>{COMMAND_WORDS[name]} is under way</strong>
      {under ? <span aria-hidden="true">, {join(duration(seconds))}</span> : null}
      {under && under.reason === null && under.waiting_for.length > 0
        ? <div>waiting for {under.waiting_for.join(", ")}</div> : null}
      {under && under.reason !== null ? <div><strong>{capital(under.reason)}.</strong></div>
        : seconds > SLOW_SECONDS ? <div><strong>This takes longer than it should.</strong></div> : null}
    </div>
  );
}

/** What may be asked of the node now. */
function legalNow(now: State): LegalCommand[] {
  const busy = now.under_way !== null || sending.value !== null;
  return busy || !mayOperate.value ? [] : now.commands;
}

export function Control({ now }: { now: State }) {
  const group = useRef<HTMLDivElement>(null);
  const legal = legalNow(now);
  useEffect(() => {
    if (!sent || document.querySelector("dialog[open]")) return;
    const here = document.activeElement;
    if (here === null || here === document.body) group.current?.focus();
    // Whoever went elsewhere meanwhile stays there.
    else if (!group.current?.contains(here)) sent = false;
    if (now.under_way === null && sending.peek() === null) sent = false;
  });
  const button = (name: CommandName, size: string) => {
    const known = legal.find((one) => one.name === name);
    return known ? (
      <button type="button" key={name} class={`command command-${name} ${size}`}
        onClick={() => press(known)}>{COMMAND_WORDS[name]}</button>
    ) : null;
  };
  return (
    <div ref={group} class="control" role="group" aria-label="Run control" tabIndex={-1}>
      <div class="control-state">
        <span class="note">State</span> <strong data-test="state">{now.state}</strong>
      </div>
      <div class="control-places">
        {LARGE.map((name) => button(name, "large"))}
        {SMALL.map((name) => button(name, "small"))}
        <UnderWay now={now} />
      </div>
      {mayOperate.value ? null : <p class="note">A viewer may only look.</p>}
    </div>
  );
}

/** Ends the program: far from the buttons of runs. */
export function ShutDown({ now }: { now: State }) {
  const known = legalNow(now).find((one) => one.name === "shutdown");
  return known
    ? <button type="button" onClick={() => press(known)}>{COMMAND_WORDS.shutdown}</button> : null;
}

/** The dialog stands apart from the buttons, so that it stays while these change. */
export function ControlDialog() {
  const open = asked.value;
  return open ? <Ask key={`${open.name}${open.configuration}${open.run}`} meant={open} /> : null;
}

export function Notices() {
  const said = notice.value;
  useEffect(() => {
    if (said === null || said.kind === "failed") return undefined;
    const timer = setTimeout(() => { notice.value = null; }, NOTICE_MS);
    return () => clearTimeout(timer);
  }, [said]);
  return (
    <div class="notices" role="status">
      {said ? (
        <div class={`notice notice-${said.kind}`}>
          <span>{said.text}</span>
          <button type="button" class="quiet" onClick={() => { notice.value = null; }}>
            Close
          </button>
        </div>
      ) : null}
    </div>
  );
}
