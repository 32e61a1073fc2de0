import { expect, test, vi } from "vitest";
import { announcement, sameVerdict } from "../../src/announce";
import type { Alarm, Level, LogLine, Offsets, Run, SourceState, SourceStatus, Spill, StoredFile, StoreStream, Target, TargetNode } from "../../src/api";
import { hexRows } from "../../src/hex";
import { filtered, groups, merged, needsAttention, newestFiles, urgentFirst, worstFirst } from "../../src/order";
import {
  abandonedWords, folderWaitWords, headline, isLoss, lackWords, nodeAwayWords, nodeWords, offsetsWords,
  runWords, spillLossWords, spillWaitWords, spillWords, streamsWords, streamWords, targetWords, untilDurableWords, verdictWords,
  writtenWords,
} from "../../src/words";

vi.stubGlobal("location", { hash: "" });
const { link, parse } = await import("../../src/route");

function source(index: number, status: SourceStatus, lost = 0, group = "small"): SourceState {
  return {
    name: `${group}-${index}`, index, group, kind: "events", status, required: true,
    address: "127.0.0.1:21000", from: [], packets_per_second: 1,
    bytes_per_second: 100, loss_per_second: 0, loss: lost > 0 ? { fragments_missing: lost } : {}, bad: {},
    fill: 0, parked_fragments: 0, astray: null, offsets: null,
    link: {
      waits: 0, waited_ms: 0, marks_ignored: 0, fragments_skew: 0, abandoned: {}, made: 0, taken: 0, durable: 0,
      release: null, until_durable_ms_median: null, until_durable_ms_p99: null,
    },
    last_packet_seconds: 0.1, ledger: {}, targets: {},
  };
}

const names = (sources: SourceState[]) => sources.map((one) => one.index);

test("the worst source stands first, and equals do not change places", () => {
  const sources = [source(0, "good"), source(1, "loss", 5), source(2, "silent"), source(3, "loss", 900), source(4, "never")];
  expect(names(worstFirst(sources))).toEqual([2, 4, 3, 1, 0]);
  const optional = { ...source(2, "silent"), required: false };
  expect(names(worstFirst([optional, source(0, "good"), source(1, "loss", 5)]))).toEqual([1, 2, 0]);
  expect(names(worstFirst([source(1, "loss", 100), source(0, "loss", 101)]))).toEqual([0, 1]);
});

test("a filter takes every word, in name or group", () => {
  const sources = [source(1, "good"), source(12, "loss", 1), source(1, "silent", 0, "large")];
  expect(filtered(sources, "SMALL 1", "all")).toHaveLength(2);
  expect(filtered(sources, "", "bad")).toHaveLength(2);
  expect(filtered(sources, "large", "loss")).toHaveLength(0);
});

test("a group is as bad as its worst source", () => {
  const [small, large] = groups([source(1, "loss"), source(0, "good"), source(2, "silent", 0, "large")]);
  expect(small).toMatchObject({ name: "small", worst: "loss", packets: 2, bytes: 200 });
  expect(names(small?.members ?? [])).toEqual([0, 1]);
  expect(large?.worst).toBe("silent");
});

test("an optional source that was never seen is no trouble", () => {
  const absent = { ...source(1, "never"), required: false };
  const sources = [source(0, "good"), absent, { ...absent, index: 2 }];
  const [group] = groups(sources);
  expect(group).toMatchObject({ worst: "good", absent: 2, counts: { good: 1, never: 0 } });
  expect(filtered(sources, "", "bad")).toHaveLength(0);
  expect(filtered(sources, "", "never")).toHaveLength(2);
  expect(sources.filter(needsAttention)).toHaveLength(0);
  expect([...sources, source(3, "never")].filter(needsAttention)).toHaveLength(1);
  expect(groups([absent, source(3, "never")])[0]).toMatchObject({ worst: "never", absent: 1, counts: { never: 1 } });
});

test("what a source's times suggest stands there as it is configured", () => {
  const offsets = {
    count: 900, mean_ns: 3100, first_ns: 3000, bin_ns: 100, bins: [400, 500], suggested_ns: -3050, window_ns: 800,
    beyond_ns: null, drift_ppm: null, beyond: [],
  };
  const words = (of: Offsets) => offsetsWords(of).replace(/\s/g, " ");
  expect(words(offsets)).toBe(
    'Mean 3.10 µs. Suggested: time_offset = "-3050 ns". With those of all sources build.time.window = "800 ns" holds 99.9 % of each.');
  expect(words({ ...offsets, window_ns: null })).toBe('Mean 3.10 µs. Suggested: time_offset = "-3050 ns".');
  expect(words({ ...offsets, drift_ppm: -3.2, window_ns: null })).toBe(
    "Mean 3.10 µs. Its clock drifts by −3.20 ppm against the events' time. " +
      'Suggested: time_offset = "-3050 ns".');
  expect(words({ ...offsets, suggested_ns: null })).toContain("no time_offset is suggested");
  expect(words({ ...offsets, beyond_ns: 3_000_000, window_ns: null })).toBe(
    'Outside the window of most events, by 3.00 ms. Suggested: time_offset = "-3050 ns".');
  expect(words({ ...offsets, count: 0, mean_ns: 0, bins: [0], suggested_ns: null, window_ns: null })).toBe(
    "In no event. Nothing stands out around them: no time_offset is suggested.");
});

test("the share that is lost stands in the verdict's large words", () => {
  const verdict = (level: Level, loss_share: number | null) => ({ level, loss_share, bad_share: 0, text: "", reasons: [] });
  const words = (level: Level, share: number | null) => headline(verdict(level, share)).replace("\u00a0", " ");
  expect(words("heavy_loss", 0.912)).toBe("Losing 91.2 % of the data");
  expect(words("loss", 0.0034)).toBe("Recording with loss, 0.34 % of the data");
  // It was lost within the last minute, but not within the last seconds.
  expect(words("loss", 0)).toBe("Recording with loss");
  expect(words("not_recording", null)).toBe("Not recording");
  expect(words("held", 0)).toBe("Recording, but held up");
});

test("the share that is bad stands in the verdict's large words, and no bad data are good", () => {
  const words = (level: Level, bad_share: number) =>
    headline({ level, loss_share: 0, bad_share, text: "", reasons: [] }).replace("\u00a0", " ");
  expect(words("bad_data", 0.011)).toBe("Recording, but 1.10 % of the data are bad");
  expect(words("bad_data", 0)).toBe("Recording, with bad data");
  expect(words("heavy_bad_data", 0.5)).toBe("50.0 % of the recorded data are bad");
});

test("a run that ended in order says whether that was with loss or bad data", () => {
  const words = (state: Run["state"], loss_count: number, bad_count: number) =>
    runWords({ state, loss_count, bad_count } as Run);
  expect(words("complete", 0, 0)).toBe("complete");
  expect(words("complete", 1, 0)).toBe("ended, with loss");
  expect(words("complete", 0, 1)).toBe("ended, with bad data");
  expect(words("complete", 1, 1)).toBe("ended, with loss and bad data");
  expect(words("interrupted", 1, 0)).toBe("interrupted");
});

test("a best-effort target that lacks something is a note, and no other is", () => {
  const queue = { name: "", level_bytes: 0, highest_bytes: 0, capacity_bytes: 1 };
  const mirror: Target = {
    name: "mirror", required: false, folder: "/mnt", node: null, state: "recording", reason: null, bytes_written: 0,
    bytes_written_per_second: 0, queue, buffers: null, folders: [], nodes: [],
    ledger: { fragments_recorded: 70, fragments_not_taken: 20, fragments_discarded_disk: 10 },
  };
  const raid: Target = { ...mirror, name: "raid", required: true, ledger: { fragments_recorded: 100 } };
  const words = (target: Target) => [targetWords(target).text, lackWords(target).replace("\u00a0", " ").split(":")[0]];
  expect(words(mirror)).toEqual(["recording in part", "mirror did not get 20.0 % of the fragments"]);
  expect(words({ ...mirror, ledger: { fragments_recorded: 100 } })).toEqual(["recording", ""]);
  expect(words({ ...mirror, folder: null })).toEqual(["keeps nothing", ""]);
  expect(words(raid)).toEqual(["recording", ""]);
  expect(words({ ...raid, state: "fault", reason: "disk full" })).toEqual(["in fault", ""]);
  expect(words({ ...raid, state: "ended" })).toEqual(["ended", ""]);
  const node = { ...raid, folder: null, node: "10.0.0.7:7100" };
  expect(words(node)).toEqual(["recording", ""]);
  expect(words({ ...node, state: "away", reason: "it is away" })).toEqual(["away, frames wait", ""]);
  expect(words({ ...raid, state: "spilling", reason: "disk full" })).toEqual(["away, frames are spilled", ""]);
});

test("a folder whose disk is waited for is a note, and one that is written to is none", () => {
  const folder = { path: "/a", is_current: true, free_bytes: null, away: null, waits_seconds: 0.3 };
  const waiting = { ...folder, path: "/b", waits_seconds: 7.25 };
  const target = { name: "raid", folders: [folder, waiting] } as Target;
  expect(folderWaitWords(target).map((one) => one.replaceAll("\u00a0", " "))).toEqual([
    "raid waits for the disk of /b: a write, a sync or a close has not completed for 7.3 s.",
  ]);
});

test("a storage node that takes nothing is a note with how long and why, and so is what waits in a spill", () => {
  const queue = { name: "", level_bytes: 0, highest_bytes: 0, capacity_bytes: 1 };
  const node: TargetNode = {
    address: "a:1", is_connected: true, frames_durable: 1, bytes_durable: 1, bytes_held: 0, away_since_ns: null, away: null,
  };
  const away: TargetNode = { ...node, address: "b:1", is_connected: false, away_since_ns: 1e18, away: "it is away" };
  const target: Target = {
    name: "store", required: true, folder: null, node: "a:1, b:1", state: "recording", reason: null, bytes_written: 0,
    bytes_written_per_second: 0, queue, buffers: null, folders: [], nodes: [node, away], ledger: {},
  };
  const time = new Date(1e12 + 5_000).toISOString();
  const plain = (words: string[]) => words.map((one) => one.replaceAll("\u00a0", " "));
  expect(plain(nodeAwayWords(target, time))).toEqual([
    "Storage node b:1 of store takes nothing now, for 5.0 s: it is away.",
  ]);
  expect(nodeAwayWords({ ...target, nodes: [away] }, time)).toEqual([]);
  expect([node, away, { ...node, is_connected: false }].map((one) => nodeWords(one).text))
    .toEqual(["connected", "takes nothing now", "not connected"]);
  const spill: Spill = {
    target: "store", folder: "/s", node: "a:1", bytes_max: 9, frames_spilled: 3, bytes_spilled: 3, frames_forwarded: 1,
    bytes_forwarded: 1, frames_lost: 1, frames_waiting: 2, bytes_waiting: 2_000, waits_seconds: 7.25, room_seconds: null,
    problems: [],
  };
  expect(plain([spillWords(spill), spillLossWords(spill), spillWaitWords(spill)])).toEqual([
    "2 frames (2.00 kB) are waiting in the spill of store.",
    "1 frame of store is lost: its spill could not be read.",
    "store waits for the disk of its spill /s, which has not answered for 7.3 s.",
  ]);
  expect(plain([spillWords({ ...spill, room_seconds: 8_400 })])).toEqual([
    "2 frames (2.00 kB) are waiting in the spill of store, which has room for 2.3 h at this rate.",
  ]);
  const empty = { ...spill, frames_lost: 0, frames_waiting: 0, waits_seconds: 0.9 };
  expect([spillWords(empty), spillLossWords(empty), spillWaitWords(empty)]).toEqual(["", "", ""]);
});

test("what a front-end abandoned stands with its reasons, and how long its data take with half and most of them", () => {
  expect(abandonedWords({ buffer: 3, hardware: 0, busy: 1_200 })).toBe("3 (buffer), 1,200 (busy)");
  expect(abandonedWords({})).toBe("");
  const ofLink = source(0, "good").link;
  expect(untilDurableWords(ofLink)).toBe("–");
  const shown = untilDurableWords({ ...ofLink, until_durable_ms_median: 144, until_durable_ms_p99: 288 });
  expect(shown.replaceAll("\u00a0", " ")).toBe("half within 144 ms, 99 % within 288 ms");
});

test("alarms that wait for somebody stand before those that were seen", () => {
  const alarm = (id: string, state: Alarm["state"], severity: Alarm["severity"]): Alarm => ({
    id, name: id, severity, state, text: "", value: null, threshold: null,
    since: "2026-11-21T00:00:00Z", ended: null, acknowledged_by: null, source: null, group: null,
    sources: [], source_count: 0,
  });
  const alarms = [
    alarm("seen", "acknowledged", "critical"), alarm("low", "active", "info"),
    alarm("over", "latched", "critical"), alarm("high", "active", "critical"),
  ];
  expect(urgentFirst(alarms).map(({ id }) => id)).toEqual(["high", "low", "over", "seen"]);
  // A cause that is older than what it led to stays before it, as the node has it.
  const cause = alarm("cause", "active", "critical");
  const effect = { ...alarm("effect", "active", "critical"), since: "2026-11-21T00:01:00Z" };
  expect(urgentFirst([cause, effect]).map(({ id }) => id)).toEqual(["cause", "effect"]);
});

test("a line of the log that comes twice is shown once, and a new node's lines replace the old", () => {
  const line = (number: number, second: number): LogLine => ({
    number, time: `2026-11-21T00:00:${10 + second}.000Z`, level: "info", target: "", message: "", fields: {},
  });
  const old = [line(7, 1), line(8, 2)];
  const numbers = (lines: LogLine[]) => lines.map((one) => one.number);
  expect(numbers(merged(old, [line(8, 2), line(9, 3)], 10))).toEqual([7, 8, 9]);
  expect(numbers(merged(old, [line(6, 0), line(9, 3)], 3))).toEqual([7, 8, 9]);
  expect(numbers(merged(old, [line(1, 40), line(2, 41)], 10))).toEqual([1, 2]);
});

test("a figure that counts on is no new verdict", () => {
  const silent = (seconds: number) => ({ level: "not_recording" as const, loss_share: null, bad_share: null, text: `no data for ${seconds} s`, reasons: [] });
  expect(sameVerdict(silent(12), silent(13.5))).toBe(true);
  expect(sameVerdict(silent(12), { ...silent(12), level: "loss" })).toBe(false);
  expect(announcement(silent(12))).toBe("Not recording: no data for 12 s");
});

test("bytes are shown sixteen in a row, and what is no letter as a dot", () => {
  const rows = hexRows("00".repeat(15) + "41" + "7f42");
  expect(rows.map((row) => row.offset)).toEqual(["000000", "000010"]);
  expect(rows[0]?.text).toBe(`${"·".repeat(15)}A`);
  expect(rows[1]).toEqual({ offset: "000010", bytes: "7f 42", text: "·B" });
});

test("entries that the ledger calls a loss are a loss here, and no others", () => {
  for (const loss of ["packets_dropped_by_kernel", "packets_malformed_short", "packets_missing", "fragments_late", "fragments_missing_unrecorded", "fragments_discarded_disk", "fragments_time_repeated"]) expect(isLoss(loss), loss).toBe(true);
  for (const fine of ["fragments_duplicate", "fragments_discarded_disabled", "fragments_discarded_paused", "fragments_outside_run", "fragments_not_owned", "fragments_foreign", "fragments_bad_sender", "packets_received", "fragments_reordered"]) expect(isLoss(fine), fine).toBe(false);
});

test("an address leads to its view, and a broken one to the overview", () => {
  expect(parse(link("sources", "L1:FAST/0 %"))).toEqual({ view: "sources", item: "L1:FAST/0 %" });
  expect(parse("#/nowhere/7")).toEqual({ view: "overview", item: "7" });
  expect(parse("#/runs/%E0%A4%A")).toEqual({ view: "runs", item: null });
});

test("a storage node stores and records nothing", () => {
  const of = (level: Level) => ({ level, loss_share: null, bad_share: null, text: "", reasons: [] });
  const levels: Level[] = ["good", "held", "not_recording"];
  expect(levels.map((level) => headline(of(level), true))).toEqual(["Storing", "Storing in part", "Not storing"]);
  expect(levels.map((level) => verdictWords(of(level), true))).toEqual(["Storing", "Storing in part", "Not storing"]);
  expect(announcement({ ...of("not_recording"), text: "no folder can be written" }, true)).toBe("Not storing: no folder can be written");
  const stream = (state: StoreStream["state"]) => streamWords({
    name: "run-1", run: "", stream: 0, variant: 0, recorder: null, state, reason: null, taken: 0, durable: 0,
    bytes_written: 0, bytes_written_per_second: 0,
    syncs: { count: 0, total_seconds: 0, last_seconds: 0, longest_seconds: 0 },
  }).text;
  expect((["open", "waits", "broken_off", "cut_off", "ended"] as const).map(stream)).toEqual(["storing", "cannot be written", "broke off", "cut off", "ended"]);
});

test("of a stored run's files those that are being written come first, then the last ones", () => {
  const file = (stream: number, index: number, being_written = false): StoredFile => ({
    name: `run-7${stream > 0 ? `-s${stream}` : ""}-${String(index).padStart(5, "0")}.catch`,
    folder: 0, stream, bytes: 1, being_written,
  });
  const files = [file(0, 0), file(0, 1), file(0, 2, true), file(1, 9), file(1, 10), file(2, 1, true)];
  const shown = newestFiles(files, 4).map(({ stream, name }) => `${stream} ${name.slice(-8, -6)}`);
  expect(shown).toEqual(["0 02", "2 01", "1 10", "1 09"]);
  expect(newestFiles(files, 100)).toHaveLength(6);
});

test("a stored run's streams and state are said in words", () => {
  expect(streamsWords([0])).toBe("0");
  expect(streamsWords([0, 1, 2, 3])).toBe("0, 1, 2, 3");
  expect(streamsWords([0, 1, 2, 3, 9])).toBe("0, 1, 2 and 2 more");
  expect([writtenWords(0, 7), writtenWords(2, 7), writtenWords(1, 1), writtenWords(0, 0)])
    .toEqual(["not being written", "2 files being written", "being written", "no files"]);
});
