// What a dialog of run control asks for, and whether that can still be done: the run may end, and
// another begin, while the dialog is open.
import type { CommandName, State } from "./api";

export const COMMAND_WORDS: Record<CommandName, string> = {
  configure: "Configure", arm: "Arm", start: "Start run", pause: "Pause", resume: "Resume",
  stop: "Stop run", disarm: "Disarm", reset: "Reset", shutdown: "Shut down",
};

export interface Asked {
  name: CommandName;
  configuration: number | null;
  /** The current run when the dialog was opened: the command is meant for it and for no other. */
  run: number | null;
}

export type Standing =
  /** It can be sent; what to say of its consequences. */
  | { kind: "possible"; confirm: string | null }
  /** Not now, but perhaps in a moment. */
  | { kind: "waiting"; text: string }
  /** What it was meant for is no more. */
  | { kind: "over"; text: string };

export function standing(asked: Asked, now: State | null): Standing {
  if (now === null) return { kind: "waiting", text: "The state of the node is not known." };
  const current = now.run?.number ?? null;
  if (current !== asked.run) {
    const ended = asked.run === null ? "" : `Run ${asked.run} has ended. `;
    const begun = current === null ? "" : `The current run is ${current}. `;
    return { kind: "over", text: `${ended}${begun}Nothing was sent.` };
  }
  const offered = now.commands.find((known) => known.name === asked.name);
  if (offered) return { kind: "possible", confirm: offered.confirm };
  return now.under_way
    ? { kind: "waiting", text: `${COMMAND_WORDS[now.under_way.command]} is under way.` }
    : { kind: "over", text: `The state is ${now.state} now. Nothing was sent.` };
}
