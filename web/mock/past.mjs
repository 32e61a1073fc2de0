// What the mock's node remembers: earlier runs, log lines and the history of its rates.

import { generator } from "./sources.mjs";

/** @import {Counts, History, LogLine, Run, RunLedger, SeriesName} from "../src/api.ts" */

export const HISTORY_SECONDS = 86_400;

const COMMENTS = [
  "beam at 1.58 A GeV, target 3", "cosmics before the shift", "trigger scan, step 4", "",
  "pedestals", "beam lost after 20 min", "night shift", "new thresholds for large-03",
];

/** @param {number} now @returns {Run[]} */
export function runs(now) {
  const random = generator(5);
  return Array.from({ length: 140 }, (_, index) => {
    const number = 317 - index;
    const seconds = Math.floor(300 + 3000 * random());
    const started = now - 1_200_000 - index * 3_700_000;
    const events = seconds * 4000;
    const lossy = number % 9 === 0;
    const state = number % 37 === 0 ? "interrupted" : number % 53 === 0 ? "failed" : "complete";
    return {
      number, id: number.toString(16).padStart(32, "0"),
      started: state === "failed" ? null : new Date(started).toISOString(),
      ended: new Date(started + seconds * 1000).toISOString(),
      who: ["anna", "bert", "chiara"][number % 3] ?? "anna",
      comment: COMMENTS[number % COMMENTS.length] ?? "", configuration: 12 - (index >> 5),
      emulated: number === 316,
      state, quality: lossy ? "bad" : number % 4 === 0 ? "unknown" : "good",
      events: state === "failed" ? 0 : events, bytes: state === "failed" ? 0 : events * 32_700,
      frames: seconds, files: 1 + Math.floor((events * 32_700) / 16e9),
      loss_count: state === "interrupted" ? 1231 : lossy ? 1234 + number : 0,
      bad_count: 0,
      folder: `/data/runs/run-20261120-${number}`,
      remarks: COMMENTS[number % COMMENTS.length] ? [{
        time: new Date(started).toISOString(), who: ["anna", "bert", "chiara"][number % 3] ?? "anna",
        kind: "start", text: COMMENTS[number % COMMENTS.length] ?? "",
      }] : [],
    };
  });
}

/** @param {Run} run @returns {RunLedger} */
export function ledger(run) {
  const events = run.events;
  /** @type {Record<string, Counts>} */
  const sources = {};
  /** @type {Counts} */
  const totals = {};
  for (let index = 0; index < 90; index += 1) {
    const name = index < 60 ? `small-${String(index).padStart(2, "0")}`
      : index < 80 ? `medium-${String(index - 60).padStart(2, "0")}` : `large-0${index - 80}`;
    const missing = index === 67 ? run.loss_count : 0;
    /** @type {Counts} */
    const counts = {
      packets_received: Math.floor(events / 27), packets_accepted: Math.floor(events / 27),
      fragments_received: events - missing, fragments_recorded: events - missing,
      fragments_durable: events - missing, fragment_bytes_recorded: events * 360,
      ...(missing > 0 ? { fragments_missing: missing } : {}),
      ...(missing > 0 ? { fragments_discarded_disk: 3 } : {}),
    };
    sources[name] = counts;
    for (const [entry, value] of Object.entries(counts)) totals[entry] = (totals[entry] ?? 0) + value;
  }
  return { balanced: true, totals, sources };
}

const REQUEST = "0f6e2c1a-7b1d-4a53-9c55-0d8f6a1b2c3d";

/** @param {number} now @returns {LogLine[]} */
export function logs(now) {
  /** @type {[number, LogLine["level"], string, string, Record<string, string>][]} */
  const lines = [
    [1041, "info", "catchment_control", "listening", { address: "127.0.0.1:8080" }],
    [1032, "info", "catchment_control", "start: under way", { who: "anna", request: REQUEST }],
    [1031, "info", "catchment_recorder", "sockets bound", { count: "90", buffer_bytes: "16777216" }],
    [1029, "info", "catchment_recorder", "recording", { run: "318", folder: "/data/runs" }],
    [640, "warn", "catchment_recorder", "compression lowered for 0.4 s: frames wait for the disk", { waiting_bytes: "71303168" }],
    [412, "debug", "catchment_disk", "next file opened ahead", { index: "4" }],
    [300, "info", "catchment_recorder", "file closed", { index: "3", bytes: "16000004096" }],
    [41, "info", "catchment_control", "session opened", { who: "anna", role: "operator" }],
  ];
  return lines.map(([ago, level, target, message, fields], index) => ({
    number: index + 1, time: new Date(now - ago * 1000).toISOString(), level, target, message, fields,
  }));
}

/** @param {number} seconds @param {number} points @param {string} scenario @returns {History} */
export function history(seconds, points, scenario) {
  const step = seconds / points;
  const end = Math.floor(Date.now() / 1000 / step) * step;
  /** @type {Record<SeriesName, (number | null)[]>} */
  const series = {
    events_per_second: [], bytes_per_second: [], bytes_written_per_second: [], loss_per_second: [],
  };
  for (let index = 0; index < points; index += 1) {
    const time = end - (points - 1 - index) * step;
    // The noise belongs to the time, so that the next answer shows the same past.
    const random = generator(Math.floor(time / step));
    const ago = end - time;
    const unknown = ago > seconds * 0.93;
    const stopped = scenario === "idle" || scenario === "fault" ? ago < seconds * 0.2
      : ago > seconds * 0.55 && ago < seconds * 0.6;
    const rate = stopped ? 0 : 4000 * (1 + 0.02 * (random() - 0.5)) * (ago > seconds * 0.6 ? 0.7 : 1);
    const losing = scenario === "loss" ? ago < seconds * 0.1 : scenario === "silent" && ago < seconds * 0.08;
    series.events_per_second.push(unknown ? null : rate);
    series.bytes_per_second.push(unknown ? null : stopped ? 0 : rate * 31_900);
    series.bytes_written_per_second.push(unknown ? null : rate * 32_700 * (1 + 0.1 * (random() - 0.5)));
    series.loss_per_second.push(unknown ? null : losing ? 42 * (0.8 + 0.4 * random()) : 0);
  }
  return { start: new Date((end - (points - 1) * step) * 1000).toISOString(), step_seconds: step, series };
}
