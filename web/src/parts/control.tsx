// Run control: the commands that are legal now and no others, each in a place of its own so that
// none slips under a finger that meant another.
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { CommandName, CommandResult, LegalCommand, State } from "../api";
import { type Asked, COMMAND_WORDS, standing } from "../asked";
import { ApiError, command, get, NoAnswer, reason, uuid } from "../client";
import { duration, join } from "../format";
import { mayOperate, notice, nowMs, session, state } from "../store";
import { Modal } from "./modal";

const MAIN: CommandName[] = ["start", "resume", "reset", "pause", "stop"];
const SLOW_SECONDS = 10;
const POLL_MS = 500;

const asked = signal<Asked | null>(null);
/** Sent, and no answer yet. */
const sending = signal<CommandName | null>(null);

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

function Ask({ meant }: { meant: Asked }) {
  const who = session.value;
  const cancel = useRef<HTMLButtonElement>(null);
  const now = standing(meant, state.value);
  const possible = now.kind === "possible";
  // Only what is asked about first is dangerous, and that does not change while it is open.
  const danger = useRef(possible && now.confirm !== null).current;
  const words = COMMAND_WORDS[meant.name];
  // The button that had the focus may be gone.
  useEffect(() => { if (!possible) cancel.current?.focus(); }, [possible]);
  const close = () => { asked.value = null; };
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    if (possible) void send(meant, String(form.get("comment") ?? ""));
  };
  return (
    <Modal title={`${words}?`} close={close}>
      <form onSubmit={submit}>
        {possible
          ? now.confirm === null ? null : <p class="consequence">{now.confirm}</p>
          : <p class="consequence" role="alert">{now.text}</p>}
        {meant.configuration === null ? null : <p>With configuration {meant.configuration}.</p>}
        <label>
          Comment{" "}
          <span class="note">
            {meant.run === null && meant.name !== "start"
              ? "(optional, kept in the audit log: there is no run)" : "(optional, kept with the run)"}
          </span>
          <textarea name="comment" rows={2} maxLength={2000} autofocus={!danger} />
        </label>
        <p class="note">
          {who && who !== "unknown" ? `Done in the name of ${who.name} (${who.role}).` : ""}
        </p>
        <div class="buttons">
          <button ref={cancel} type="button" onClick={close} autofocus={danger}>
            {now.kind === "over" ? "Close" : "Cancel"}
          </button>
          {now.kind === "over" ? null : (
            <button type="submit" class={danger ? "danger" : "go"} disabled={!possible}>{words}</button>
          )}
        </div>
      </form>
    </Modal>
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
      {under && under.waiting_for.length > 0 ? <div>waiting for {under.waiting_for.join(", ")}</div> : null}
      {seconds > SLOW_SECONDS ? <div><strong>This takes longer than it should.</strong></div> : null}
    </div>
  );
}

export function Control({ now }: { now: State }) {
  const busy = now.under_way !== null || sending.value !== null;
  const legal = busy || !mayOperate.value ? [] : now.commands;
  const main = MAIN.map((name) => legal.find((known) => known.name === name))
    .filter((known) => known !== undefined);
  const others = legal.filter((known) => !MAIN.includes(known.name));
  return (
    <div class="control" role="group" aria-label="Run control">
      <div class="control-state">
        <span class="note">State</span> <strong data-test="state">{now.state}</strong>
      </div>
      <UnderWay now={now} />
      <div class="control-main">
        {main.map((known) => (
          <button
            type="button" key={known.name} class={`command command-${known.name}`}
            onClick={() => press(known)}
          >{COMMAND_WORDS[known.name]}</button>
        ))}
      </div>
      {others.length === 0 ? null : (
        <div class="control-others">
          {others.map((known) => (
            <button type="button" key={known.name} class="command small" onClick={() => press(known)}>
              {COMMAND_WORDS[known.name]}
            </button>
          ))}
        </div>
      )}
      {mayOperate.value ? null : <p class="note">A viewer may only look.</p>}
    </div>
  );
}

/** The dialog stands apart from the buttons, so that it stays while these change. */
export function ControlDialog() {
  const open = asked.value;
  return open ? <Ask key={`${open.name}${open.configuration}${open.run}`} meant={open} /> : null;
}

export function Notices() {
  const said = notice.value;
  return (
    <div class="notices" role="status">
      {said ? (
        <div class={`notice notice-${said.kind}`}>
          <span>{said.text}</span>
          <button type="button" class="quiet" onClick={() => { notice.value = null; }}>Close</button>
        </div>
      ) : null}
    </div>
  );
}
