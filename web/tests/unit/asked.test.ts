import { expect, test } from "vitest";
import type { State } from "../../src/api";
import { type Asked, standing } from "../../src/asked";

const stop: Asked = { name: "stop", configuration: null, run: 5 };

function state(run: number | null, changes: Partial<State> = {}): State {
  const commands = run === null ? [{ name: "start", confirm: null }]
    : [{ name: "stop", confirm: `Ends run ${run} for everybody.` }];
  return { state: run === null ? "configured" : "recording", run: run === null ? null : { number: run }, commands, under_way: null, ...changes } as State;
}

test("a dialog asks about the run that it was opened for", () => {
  expect(standing(stop, state(5))).toEqual({ kind: "possible", confirm: "Ends run 5 for everybody." });
});

test("a dialog never passes to another run", () => {
  expect(standing(stop, state(6))).toEqual({ kind: "over", text: "Run 5 has ended. The current run is 6. Nothing was sent." });
  expect(standing(stop, state(null))).toEqual({ kind: "over", text: "Run 5 has ended. Nothing was sent." });
  const start: Asked = { name: "start", configuration: 3, run: null };
  expect(standing(start, state(null))).toEqual({ kind: "possible", confirm: null });
  expect(standing(start, state(6))).toEqual({ kind: "over", text: "The current run is 6. Nothing was sent." });
});

test("a dialog waits for another command, and ends when its own is not possible", () => {
  const under_way = { request: "r", command: "pause", since: "", waiting_for: [], reason: null } as State["under_way"];
  expect(standing(stop, state(5, { commands: [], under_way }))).toEqual({ kind: "waiting", text: "Pause is under way." });
  expect(standing({ ...stop, name: "pause" }, state(5, { state: "paused" })))
    .toEqual({ kind: "over", text: "The state is paused now. Nothing was sent." });
  expect(standing(stop, null).kind).toBe("waiting");
});
