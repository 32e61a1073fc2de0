// What the last run came to, while there is none.
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Run, RunPage } from "../api";
import { get } from "../client";
import * as format from "../format";
import { link } from "../route";
import { nowMs, stale, state } from "../store";
import { lossOf, runWords } from "../words";
import { Emulated } from "./emulated";
import { Icon } from "./icon";

const last = signal<Run | null>(null);
const WORDS: Partial<Record<Run["state"], string>> = {
  interrupted: "The program or the machine went down while it recorded. What had reached the disk can be read.",
  failed: "It never began.",
};

async function fetchLast(): Promise<void> {
  try {
    last.value = (await get<RunPage>("/runs?limit=1")).runs[0] ?? null;
  } catch {
    // The list of runs says why.
    last.value = null;
  }
}

export function LastRun() {
  const current = state.value?.run?.number ?? null;
  const known = !stale.value;
  // What ended just now is in the catalogue when the state says that it is over.
  useEffect(() => { if (current === null && known) void fetchLast(); }, [current, known, state.value?.state]);
  const run = last.value;
  if (current !== null || run === null) return null;
  const bad = run.state !== "complete" || run.loss_count > 0 || run.bad_count > 0;
  const loss = lossOf(run);
  const none = run.loss_count === 0 && loss.title === undefined;
  const ended = run.ended === null ? "" : `ended ${format.utcSince(run.ended, nowMs.value)} UTC, `;
  return (
    <section class={bad ? "panel last-run is-bad" : "panel last-run"} aria-label="Last run">
      <Icon name={bad ? "warning" : "check"} />
      <p>
        <strong><a href={link("runs", run.number)}>Last run: {run.number}</a></strong>, {runWords(run)}
        {run.emulated ? <> <Emulated /></> : null}: {ended}
        <span class="figure">{format.count(run.events)}</span> events, {format.join(format.bytes(run.bytes))} in
        {" "}{format.many(run.files, "file")},{" "}
        <span title={loss.title}>{none ? "nothing" : loss.text} lost</span>.
        {" "}{WORDS[run.state] ?? ""}
      </p>
    </section>
  );
}
