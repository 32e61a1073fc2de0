// Run control: the commands that are legal now and no others, each in a place of its own so that
// none slips under a finger that meant another.
import { signal } from "@preact/signals";
import type { CommandName, CommandResult, LegalCommand, State } from "../api";
import { ApiError, command, get, NoAnswer, reason, uuid } from "../client";
import { duration, join } from "../format";
import { mayOperate, notice, nowMs, session } from "../store";
import { Modal } from "./modal";

const WORDS: Record<CommandName, string> = {
  configure: "Configure", arm: "Arm", start: "Start run", pause: "Pause", resume: "Resume",
  stop: "Stop run", disarm: "Disarm", reset: "Reset", shutdown: "Shut down",
};
const MAIN: CommandName[] = ["start", "resume", "reset", "pause", "stop"];
const SLOW_SECONDS = 10;
const POLL_MS = 500;

interface Asked { legal: LegalCommand; configuration: number | null }
const asked = signal<Asked | null>(null);
/** Sent, and no answer yet. */
const sending = signal<CommandName | null>(null);

/** Opens the dialog for a start with an earlier run's configuration. */
export function askStart(configuration: number | null): void {
  asked.value = { legal: { name: "start", confirm: null }, configuration };
}

function tell(result: CommandResult): void {
  const run = result.run === null ? "" : `, run ${result.run}`;
  const took = join(duration(result.seconds));
  notice.value = result.status === "done"
    ? { kind: "done", text: `${WORDS[result.command]}: done${run}, in ${took}, by ${result.who}.` }
    : { kind: "failed", text: `${WORDS[result.command]} failed: ${result.reason ?? "no reason given"}` };
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

async function send(name: CommandName, comment: string, configuration: number | null) {
  asked.value = null;
  sending.value = name;
  const request = uuid();
  try {
    const result = await command({
      request, command: name, device: null, comment: comment.trim() || null, configuration,
    });
    sending.value = null;
    tell(result.status === "under_way" ? await outcome(result) : result);
  } catch (error) {
    const failed = error instanceof ApiError ? error.problem.result : undefined;
    if (failed) tell(failed);
    else {
      // Without an answer nobody knows whether it was done.
      const what = error instanceof NoAnswer ? "may or may not be done" : "was refused";
      notice.value = { kind: "failed", text: `${WORDS[name]} ${what}: ${reason(error)}` };
    }
  } finally {
    sending.value = null;
  }
}

function press(legal: LegalCommand): void {
  // A start asks for a comment, which is the only time when anybody writes one.
  if (legal.confirm !== null || legal.name === "start") asked.value = { legal, configuration: null };
  else void send(legal.name, "", null);
}

function Ask({ legal, configuration }: Asked) {
  const who = session.value;
  const close = () => { asked.value = null; };
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    void send(legal.name, String(form.get("comment") ?? ""), configuration);
  };
  const danger = legal.confirm !== null;
  return (
    <Modal title={`${WORDS[legal.name]}?`} close={close}>
      <form onSubmit={submit}>
        {legal.confirm === null ? null : <p class="consequence">{legal.confirm}</p>}
        {configuration === null ? null : <p>With configuration {configuration}.</p>}
        <label>
          Comment <span class="note">(optional, kept with the run)</span>
          <textarea name="comment" rows={2} maxLength={2000} autofocus={!danger} />
        </label>
        <p class="note">
          {who && who !== "unknown" ? `Done in the name of ${who.name} (${who.role}).` : ""}
        </p>
        <div class="buttons">
          <button type="button" onClick={close} autofocus={danger}>Cancel</button>
          <button type="submit" class={danger ? "danger" : "go"}>{WORDS[legal.name]}</button>
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
      <strong>{WORDS[name]} is under way</strong>
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
          >{WORDS[known.name]}</button>
        ))}
      </div>
      {others.length === 0 ? null : (
        <div class="control-others">
          {others.map((known) => (
            <button type="button" key={known.name} class="command small" onClick={() => press(known)}>
              {WORDS[known.name]}
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
  return open ? <Ask key={`${open.legal.name}${open.configuration}`} {...open} /> : null;
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
