// Plain words for the names that the API uses.
import type {
  Alarm, Counts, DeviceState, Level, LinkState, Offsets, Run, RunState, SampleAnswer, SourceStatus, Spill, StoreStream, Target,
  TargetNode, Verdict,
} from "./api";
import * as format from "./format";

export const VERDICT_WORDS: Record<Level, string> = {
  good: "Recording good data",
  held: "Recording, but held up",
  bad_data: "Recording, with bad data",
  heavy_bad_data: "Recording bad data",
  loss: "Recording with loss",
  heavy_loss: "Losing data",
  not_recording: "Not recording",
};

/** What a source's times suggest, as it is written into the configuration. */
export function offsetsWords(offsets: Offsets): string {
  const { count, mean_ns, suggested_ns, window_ns, beyond_ns, drift_ppm } = offsets;
  const place = beyond_ns !== null
    ? `Outside the window of most events, by ${format.join(format.nanoseconds(beyond_ns))}.`
    : count === 0 ? "In no event." : `Mean ${format.join(format.nanoseconds(mean_ns))}.`;
  const drift = drift_ppm === null ? "" : format.join(format.ppm(drift_ppm));
  const mean = drift === "" ? place
    : `${place} Its clock drifts by ${drift} against the events' time.`;
  if (suggested_ns === null) {
    const where = count === 0 ? "around them" : "of what is in events by chance";
    return `${mean} Nothing stands out ${where}: no time_offset is suggested.`;
  }
  const window = window_ns === null ? ""
    : ` With those of all sources build.time.window = "${window_ns} ns" holds 99.9 % of each.`;
  return `${mean} Suggested: time_offset = "${suggested_ns} ns".${window}`;
}

/** A run that has just begun has nothing on the disk yet, and nothing is wrong. */
export const isBeginning = ({ level, text }: Verdict): boolean =>
  level === "not_recording" && text.endsWith("the first data are on their way");

/** The verdict on a storage node, whose levels are no others. */
const storeWords = (level: Level): string =>
  level === "good" ? "Storing" : level === "not_recording" ? "Not storing" : "Storing in part";

/** The verdict in a few words; `stores`: it is on a storage node. */
export const verdictWords = (verdict: Verdict, stores = false): string => {
  if (stores) return storeWords(verdict.level);
  return isBeginning(verdict) ? "Beginning to record" : VERDICT_WORDS[verdict.level];
};

/** The verdict's large words, with the share that is lost now. */
export function headline(verdict: Verdict, stores = false): string {
  const { level, loss_share, bad_share } = verdict;
  if (stores) return storeWords(level);
  const lost = format.join(format.share(loss_share));
  const bad = format.join(format.share(bad_share));
  if (level === "heavy_bad_data") return `${bad} of the recorded data are bad`;
  if (level === "bad_data" && (bad_share ?? 0) > 0) return `Recording, but ${bad} of the data are bad`;
  if (level === "heavy_loss") return `Losing ${lost} of the data`;
  return level === "loss" && (loss_share ?? 0) > 0
    ? `${VERDICT_WORDS.loss}, ${lost} of the data` : verdictWords(verdict);
}

export const SOURCE_WORDS: Record<SourceStatus, string> = {
  good: "good",
  bad_data: "bad data",
  loss: "loss",
  out_of_step: "out of step",
  silent: "silent",
  never: "never seen",
  off: "not receiving, no run",
};

export const STATE_WORDS: Record<DeviceState, string> = {
  idle: "idle",
  configured: "configured",
  armed: "armed",
  recording: "recording",
  paused: "paused",
  safe: "safe",
  fault: "fault",
};

const RUN_STATE_WORDS: Record<RunState, string> = {
  starting: "starting",
  recording: "recording",
  complete: "complete",
  fault: "ended by a fault",
  interrupted: "interrupted",
  failed: "failed to start",
};

/** What became of a run; of one that ended in order whether that was with loss or bad data. */
export function runWords({ state, loss_count, bad_count }: Run): string {
  const flaws = [loss_count > 0 ? "loss" : "", bad_count > 0 ? "bad data" : ""].filter((one) => one !== "");
  return state === "complete" && flaws.length > 0 ? `ended, with ${flaws.join(" and ")}` : RUN_STATE_WORDS[state];
}

/** What a run lost, with a plus where that is the least; as `catchment catalog ls` has it. */
export function lossOf(run: Run): { text: string; title: string | undefined } {
  const least = run.state === "interrupted";
  return {
    text: `${format.count(run.loss_count)}${least ? "+" : ""}`,
    title: least ? "At least so much: nobody counted what was received last before the program "
      + "or the machine went down." : undefined,
  };
}

/** A target's state, and whether it is as good as it can be: a badge of a source's status. */
export function targetWords(
  { state, folder, node, required, ledger }: Target,
): { text: string; status: SourceStatus } {
  if (state === "fault") return { text: "in fault", status: "loss" };
  if (state === "spilling") return { text: "away, frames are spilled", status: "silent" };
  if (state === "away") return { text: "away, frames wait", status: "silent" };
  if (state === "ended") return { text: "ended", status: "off" };
  if (folder === null && node === null) return { text: "keeps nothing", status: "off" };
  const lacks = !required && (ledger.fragments_not_taken ?? 0) > 0;
  if (lacks) return { text: "recording in part", status: "off" };
  return { text: "recording", status: "good" };
}

/** What a best-effort target lacks, which is no loss of the run; empty if it lacks nothing. */
export function lackWords({ name, required, folder, node, ledger }: Target): string {
  const lacks = ledger.fragments_not_taken ?? 0;
  if (required || (folder === null && node === null) || lacks === 0) return "";
  const of = lacks + (ledger.fragments_recorded ?? 0) + (ledger.fragments_discarded_disk ?? 0);
  const share = format.join(format.share(lacks / of));
  return `${name} did not get ${share} of the fragments: it is best effort, and was behind. `
    + "The run has lost nothing by that.";
}

/** The state of one of several storage nodes of a target. */
export function nodeWords({ away, is_connected }: TargetNode): { text: string; status: SourceStatus } {
  if (away !== null) return { text: "takes nothing now", status: "silent" };
  return is_connected ? { text: "connected", status: "good" } : { text: "not connected", status: "off" };
}

/** Which of several storage nodes of a target take nothing, for how long and why. */
export const nodeAwayWords = ({ name, nodes }: Target, time: string): string[] =>
  nodes.length < 2 ? [] : nodes.flatMap(({ address, away, away_since_ns }) => {
    if (away === null) return [];
    const seconds = Math.max(0, Date.parse(time) / 1e3 - (away_since_ns ?? 0) / 1e9);
    return [`Storage node ${address} of ${name} takes nothing now, for ${format.join(format.duration(seconds))}: ${away}.`];
  });

/** Which folders of a target wait for their disks for longer than is usual. */
export const folderWaitWords = ({ name, folders }: Target): string[] =>
  folders.flatMap(({ path, waits_seconds }) => waits_seconds < 1 ? [] : [
    `${name} waits for the disk of ${path}: a write, a sync or a close has not completed for `
      + `${format.join(format.duration(waits_seconds))}.`,
  ]);

/** That the disk of a spill is waited for; empty if it answers. */
export const spillWaitWords = ({ target, folder, waits_seconds }: Spill): string =>
  waits_seconds < 1 ? "" : `${target} waits for the disk of its spill ${folder}, `
    + `which has not answered for ${format.join(format.duration(waits_seconds))}.`;

/** What waits in a spill; empty if nothing. */
export const spillWords = (spill: Spill): string => {
  const { target, frames_waiting: frames, bytes_waiting, room_seconds: seconds } = spill;
  if (frames === 0) return "";
  const what = `${format.many(frames, "frame")} (${format.join(format.bytes(bytes_waiting))})`;
  const room = seconds === null
    ? ""
    : `, which has room for ${format.join(format.duration(seconds))} at this rate`;
  return `${what} ${frames === 1 ? "is" : "are"} waiting in the spill of ${target}${room}.`;
};

/** What could not be read in a spill, which is a fault; empty if nothing. */
export const spillLossWords = ({ target, frames_lost }: Spill): string =>
  frames_lost === 0 ? "" : `${format.many(frames_lost, "frame")} of ${target} ${frames_lost === 1 ? "is" : "are"} `
    + "lost: its spill could not be read.";

/** The state of a stream at a storage node: a badge of a source's status. */
export function streamWords({ state }: StoreStream): { text: string; status: SourceStatus } {
  switch (state) {
    case "open": return { text: "storing", status: "good" };
    case "waits": return { text: "cannot be written", status: "loss" };
    case "broken_off": return { text: "broke off", status: "silent" };
    case "cut_off": return { text: "cut off", status: "off" };
    case "ended": return { text: "ended", status: "off" };
  }
}

/** The state of a stored run's files, or of one. */
export function writtenWords(written: number, files: number): string {
  if (written === 0) return files === 0 ? "no files" : "not being written";
  return files === 1 ? "being written" : `${format.many(written, "file")} being written`;
}

/** The streams of a stored run: all of few, the first and the number of many. */
export const streamsWords = (streams: number[]): string =>
  streams.length <= 4
    ? streams.join(", ")
    : `${streams.slice(0, 3).join(", ")} and ${streams.length - 3} more`;

export const ALARM_STATE_WORDS: Record<Alarm["state"], string> = {
  active: "active",
  latched: "ended, not acknowledged",
  acknowledged: "acknowledged",
  cleared: "cleared",
};

/** Rules have names such as `source_silent`. */
export const alarmWords = (name: string): string =>
  name.charAt(0).toUpperCase() + name.slice(1).replaceAll("_", " ");

/** What a ledger's entry means for somebody who does not know the code. */
const ENTRY_WORDS: Record<string, string> = {
  packets_received: "packets received",
  packet_bytes_received: "bytes received",
  packets_dropped_by_kernel: "packets dropped by the kernel",
  packets_accepted: "packets decoded",
  packets_malformed_short: "malformed packets: too short",
  packets_malformed_length: "malformed packets: wrong length",
  packets_malformed_header: "malformed packets: unknown header",
  packets_malformed_checksum: "malformed packets: wrong checksum or trailer",
  packets_malformed_fragment: "malformed packets: impossible fragment",
  packets_refused: "packets refused: from elsewhere, or no message",
  packet_bytes_refused: "bytes refused: from elsewhere, or no message",
  packets_missing: "packets lost on the network",
  fragments_received: "fragments received",
  fragment_bytes_received: "bytes of fragments received",
  fragments_recorded: "fragments recorded",
  fragment_bytes_recorded: "bytes of fragments recorded",
  fragments_durable: "fragments safe on disk",
  fragments_not_taken: "fragments that a target did not take",
  fragment_bytes_not_taken: "bytes of fragments that a target did not take",
  fragments_duplicate: "fragments that came twice",
  fragments_late: "late fragments",
  fragments_out_of_range: "fragments out of range",
  fragments_unknown_source: "fragments of another source",
  fragments_discarded_memory: "discarded: memory full",
  fragments_discarded_disk: "discarded: disk failed",
  fragments_discarded_incomplete: "discarded: event incomplete",
  fragments_discarded_unfinished: "discarded: parts of the fragment missing",
  fragments_discarded_disabled: "discarded: source disabled",
  fragments_discarded_paused: "discarded: paused",
  fragments_outside_run: "fragments before the first or after the last event of the run",
  fragments_not_owned: "fragments of another node's events",
  fragments_ambiguous: "fragments that came twice, or the first of a restart",
  fragments_skipped: "numbers that all sources skipped alike",
  fragments_discarded_too_large: "discarded: event too large",
  fragment_parts_repeated: "parts of fragments that came twice",
  fragments_removed: "recorded fragments whose files were removed",
  fragments_unconfirmed: "recorded fragments that their disk did not confirm",
  fragments_spilled: "recorded fragments that went through a spill",
  fragments_forwarded: "spilled fragments that the storage node, or the folder, has now",
  fragment_counts_unconfirmed: "other fragments whose counts the disk did not confirm",
  fragments_time_repeated: "fragments whose time came before",
  fragments_missing: "missing fragments",
  fragments_missing_unrecorded: "missing fragments of lost events",
  fragments_reordered: "fragments out of order",
  fragments_bad_tag: "fragments of another trigger",
  fragments_bad_sender: "fragments marked broken by their sender",
  fragments_with_holes: "fragments of which a part is missing",
  fragments_bad_checksum: "fragments with a wrong checksum",
  fragment_bytes_lost: "bytes of fragments that never came",
  fragments_foreign: "fragments of a stranger",
  fragments_discarded_order: "discarded: key does not rise",
  fragments_discarded_too_long: "discarded: fragment too long",
  fragments_repeated: "fragments sent again and dropped",
  fragments_abandoned: "fragments dropped by the front-end",
  fragments_lost_sender: "fragments lost in a front-end that died",
  fragments_discarded_restart: "discarded: recorder died",
  fragments_lost_restart: "fragments lost while no recorder was there",
  fragments_lost_taken: "fragments released as taken before the recorder died",
  fragments_not_expected: "events in which it was not expected",
  fragments_not_sent: "fragments that the front-end never sent",
  records_skipped: "records that are no fragments",
  fragments_discarded_unmatched: "discarded: in no event by their time",
  fragments_unmatched: "fragments recorded in rows of their own",
  promise_broken: "low-water keys of the front-end that fell",
  link_resumes: "breaks of the front-end's connection",
  numbering_restarts: "restarts of the numbering",
  bytes_compression_lowered: "bytes compressed less than asked for",
};

/** What a front-end abandoned, by its reasons. */
export function abandonedWords(abandoned: Counts): string {
  const reasons = Object.entries(abandoned).filter(([, count]) => count > 0);
  return reasons.map(([reason, count]) => `${format.count(count)} (${reason})`).join(", ");
}

/** Whether a source is in an event. */
export const ANSWER_WORDS: Record<SampleAnswer["answer"], string> = {
  there: "there",
  absent: "absent",
  not_expected: "not expected",
};

/** "last 64 events: 40 there, 24 not expected". */
export function answersWords(answers: SampleAnswer[]): string {
  const of = (kind: SampleAnswer["answer"]) => answers.filter(({ answer }) => answer === kind).length;
  const kinds = (["there", "absent", "not_expected"] as const).filter((kind) => of(kind) > 0);
  const counts = kinds.map((kind) => `${format.count(of(kind))} ${ANSWER_WORDS[kind]}`);
  return `last ${format.many(answers.length, "event")}: ${counts.join(", ")}`;
}

/** How long the items of a source took from taken to durable. */
export function untilDurableWords({ until_durable_ms_median: half, until_durable_ms_p99: most }: LinkState): string {
  const within = (ms: number) => format.join(format.nanoseconds(ms * 1e6));
  return half === null || most === null ? format.UNKNOWN : `half within ${within(half)}, 99 % within ${within(most)}`;
}

export const entryWords = (entry: string): string =>
  ENTRY_WORDS[entry] ?? entry.replaceAll("_", " ");

/** Entries that mean that something sent is in no file. */
const DISCARDED = "discarded_(memory|disk|incomplete|unfinished|restart|order|too_(large|long))";
const FRAGMENTS = `missing|late|out_of_range|unknown|time_repeated|removed|abandoned|lost|${DISCARDED}`;
const LOSS = new RegExp(`^(packets_(dropped|malformed|missing)|fragments_(${FRAGMENTS}))`);

export const isLoss = (entry: string): boolean => LOSS.test(entry);

/** Entries that mean that something is recorded that is not as it should be. */
export const isBad = (entry: string): boolean => /^fragments_(bad_(sender|tag|checksum)|with_holes)$/.test(entry);

/** Entries whose unit is bytes. */
export const isBytes = (entry: string): boolean => /(^|_)bytes(_|$)/.test(entry);

/** "3 missing fragments, 1 late fragment …", the largest first. */
export function topEntries(counts: Counts, most = 2): [string, number][] {
  return Object.entries(counts)
    .filter(([, value]) => value > 0)
    .sort(([a, x], [b, y]) => y - x || a.localeCompare(b))
    .slice(0, most);
}
