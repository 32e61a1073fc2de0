// Sources: worst first, filtered, and summed by group.
import type { Alarm, LogLine, SourceState, SourceStatus, StoredFile } from "./api";

const RANK: Record<SourceStatus, number> = {
  silent: 0, never: 1, out_of_step: 2, loss: 3, bad_data: 4, good: 5, off: 5,
};
/** A source that no event waits for may be silent without harm. */
const rank = (source: SourceState): number =>
  RANK[source.status] + (source.required || RANK[source.status] === RANK.good ? 0 : 4.5);

/** Whether somebody should look at it. An optional source that was never seen is not there, and
 * needs nobody. */
export const needsAttention = (source: SourceState): boolean =>
  RANK[source.status] !== RANK.good && (source.required || source.status !== "never");

/** Worst first; equals stay in the order of their numbers, so that rows do not dance. */
export function worstFirst(sources: SourceState[]): SourceState[] {
  return [...sources].sort((a, b) =>
    rank(a) - rank(b) ||
    lossOf(b) - lossOf(a) ||
    a.index - b.index);
}

/**
 * What was lost, or is bad, in steps of a factor of two: small differences do not change the
 * order.
 */
const lossOf = (source: SourceState): number =>
  Math.round(Math.log2(1 + [source.loss, source.bad].flatMap((counts) => Object.values(counts))
    .reduce((sum, value) => sum + value, 0)));

export function filtered(
  sources: SourceState[], search: string, status: SourceStatus | "bad" | "all",
): SourceState[] {
  const words = search.toLowerCase().split(/\s+/).filter((word) => word !== "");
  return sources.filter((source) => {
    const right = status === "all" || (status === "bad" ? needsAttention(source) : source.status === status);
    const text = `${source.name} ${source.group}`.toLowerCase();
    return right && words.every((word) => text.includes(word));
  });
}

export interface Group {
  name: string;
  members: SourceState[];
  counts: Record<SourceStatus, number>;
  /** Of those that need attention. */
  worst: SourceStatus;
  /** Optional ones that were never seen; in no other count. */
  absent: number;
  packets: number;
  bytes: number;
  loss: number;
}

export function groups(sources: SourceState[]): Group[] {
  const found = new Map<string, Group>();
  for (const source of [...sources].sort((a, b) => a.index - b.index)) {
    const name = source.group || "no group";
    let group = found.get(name);
    if (!group) {
      const counts = { good: 0, bad_data: 0, loss: 0, out_of_step: 0, silent: 0, never: 0, off: 0 };
      group = { name, members: [], counts, worst: "good", absent: 0, packets: 0, bytes: 0, loss: 0 };
      found.set(name, group);
    }
    group.members.push(source);
    if (source.status === "off") group.worst = "off";
    if (RANK[source.status] !== RANK.good && !needsAttention(source)) group.absent += 1;
    else group.counts[source.status] += 1;
    if (needsAttention(source) && RANK[source.status] < RANK[group.worst]) group.worst = source.status;
    group.packets += source.packets_per_second ?? 0;
    group.bytes += source.bytes_per_second ?? 0;
    group.loss += source.loss_per_second ?? 0;
  }
  return [...found.values()];
}

const SEVERITY = { critical: 0, warning: 1, info: 2 };
const STATE = { active: 0, latched: 1, acknowledged: 2, cleared: 3 };

/** Alarms that nobody has seen first, then by severity; equals as the node has them, causes before
 * what they lead to. */
export function urgentFirst(alarms: Alarm[]): Alarm[] {
  const seen = (alarm: Alarm) => Number(STATE[alarm.state] >= 2);
  return [...alarms].sort((a, b) =>
    seen(a) - seen(b) ||
    STATE[a.state] - STATE[b.state] ||
    SEVERITY[a.severity] - SEVERITY[b.severity]);
}

/** Two parts of the log as one, each line once, the newest last. A node that was started anew
 * counts its lines from 1: then only the new part stays. */
export function merged(old: LogLine[], more: LogLine[], most: number): LogLine[] {
  const last = old.at(-1);
  const again = last !== undefined &&
    more.some((line) => line.number <= last.number && line.time > last.time);
  const all = new Map((again ? more : [...old, ...more]).map((line) => [line.number, line]));
  return [...all.values()].sort((a, b) => a.number - b.number).slice(-most);
}

/** The last files of a run, which are numbered in the order in which they were begun: those that
 * are being written first. */
export const newestFiles = (files: StoredFile[], most: number): StoredFile[] =>
  [...files]
    .sort(
      (a, b) =>
        Number(b.being_written) - Number(a.being_written) || indexOf(b) - indexOf(a) || a.stream - b.stream,
    )
    .slice(0, most);

const indexOf = (file: StoredFile): number => Number(/-(\d+)\.catch$/.exec(file.name)?.[1] ?? -1);
