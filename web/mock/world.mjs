// A made-up node that behaves as the contract says: states, commands, rates, losses, alarms. Every
// browser context has a world of its own, so that tests do not disturb each other.

import { randomBytes } from "node:crypto";
import { Sources, add, generator, whole } from "./sources.mjs";
import { FAILED, store } from "./store.mjs";
import { GONE, UNREACHED, linesOf, spills, targets } from "./targets.mjs";
import { HISTORY_SECONDS, history, logs, runs } from "./past.mjs";

/** @import {Alarm, CommandName, CommandRequest, CommandResult, Counts, Device, DeviceState, LegalCommand, LogLine, Role, Severity, SourceStatus, Stage, State, Verdict} from "../src/api.ts" */

/** What can be set by `?scenario=`. */
export const SCENARIOS = [
  "good", "bad", "loss", "heavy", "silent", "idle", "fault", "alarms", "hang", "refuse", "quiet", "viewer", "login",
  "emulated", "emulated-full", "full", "links", "young", "frozen", "targets", "nodes", "store",
];

/** @type {Record<DeviceState, CommandName[]>} */
const LEGAL = {
  idle: ["configure", "start"],
  configured: ["configure", "arm", "start"],
  armed: ["disarm", "start"],
  recording: ["pause", "stop"],
  paused: ["resume", "stop"],
  safe: ["reset"],
  fault: ["stop", "reset"],
};
const SPILLED = `${UNREACHED}; /local/spill has room for 2 h 24 min at this rate`;
const FULL = "node/recorder/write: cannot write " +
  "/data/runs/run-20261121-075912-6d1f0c52/run-00009.catch: No space left on device (os error 28)";
/** @type {Partial<Record<CommandName, DeviceState>>} */
const LEADS_TO = {
  configure: "configured", arm: "armed", disarm: "configured", start: "recording",
  pause: "paused", resume: "recording", stop: "configured", reset: "idle",
};
const MEAN_EVENTS_PER_SECOND = 4000;
const DISK_BYTES = 8e12;

export class World {
  /** @param {{ scenario: string, sources: number }} options */
  constructor({ scenario, sources }) {
    this.random = generator(17);
    this.sources = new Sources(sources, this.random);
    if (scenario === "links") for (const source of this.sources.all) source.kind = "channels";
    this.began = Date.now();
    this.last = this.began;
    this.scenario = scenario;
    /** @type {DeviceState} */
    this.state = "recording";
    this.gain = 2;
    /** @type {string | null} */
    this.reason = null;
    this.paused_since = "";
    /** @type {import("../src/api.ts").CurrentRun | null} */
    this.run = null;
    /** @type {import("../src/api.ts").Remark[]} */
    this.remarks = [];
    this.next = 318;
    /** @type {import("../src/api.ts").UnderWay | null} */
    this.under_way = null;
    /** @type {Map<string, CommandResult>} */
    this.results = new Map();
    /** @type {Counts} */
    this.loss = {};
    this.bad = {};
    this.fragments = 0;
    this.rate = 0;
    this.role = /** @type {Role} */ (scenario === "viewer" ? "viewer" : "operator");
    this.signed_in = scenario !== "login";
    this.csrf = randomBytes(16).toString("hex");
    /** Whether requests are refused, as when the node is gone. */
    this.cut = false;
    this.runs = runs(this.began);
    /** @type {LogLine[]} */
    this.lines = logs(this.began);
    /** @type {Map<string, Alarm>} */
    this.alarms = new Map();
    /** @type {Set<(event: string, data: unknown) => void>} */
    this.listeners = new Set();
    this.begin(1029.4, "night shift, beam at 1.58 A GeV");
    this.set(scenario);
  }

  /** @param {string} scenario */
  set(scenario) {
    this.scenario = scenario;
    if (scenario === "idle") this.end("configured");
    if (scenario === "fault") {
      this.end("fault");
      this.reason = "node/recorder/write: disk full: /data/runs has 0 B free";
      this.raise("disk-full", "critical", "Disk is full", "free disk space 0 B", 0, 1);
    }
    // The run is still open, and goes on when there is room.
    if (scenario.endsWith("full")) {
      this.state = "fault";
      this.reason = FULL;
      this.raise("disk-full", "critical", "Disk is full", "free disk space 0 B", 0, 1);
    }
    if (scenario === "loss") {
      this.raise("loss", "warning", "Data are being lost", "fragments missing from medium-07", 42, 0);
    }
    if (scenario === "heavy") {
      this.raise("heavy", "critical", "Loss", "Losing 91 % of the data", 0.91, 0);
      const small = this.sources.all.filter((source) => source.group === "small").map((source) => source.name);
      this.raise("many", "critical", "Source silent", `All ${small.length} sources in small are silent`, 12, 5);
      Object.assign(this.alarms.get("many") ?? {}, { group: "small", sources: small, source_count: small.length });
    }
    if (scenario === "silent") {
      this.raise("silent", "critical", "A source is silent", "large-03 is silent for more than 5 s", 5, 5, "large-03");
    }
    if (scenario === "targets") {
      this.raise("target", "warning", "target_fault", "Target copy cannot be written: what it does not take is discarded there, and counted", 1, 0, "copy");
    }
    if (scenario === "nodes") {
      this.raise("spilling", "warning", "target_spilling", `Target archive takes nothing now, its frames go to its spill: ${SPILLED}`, 1, 0, "archive");
    }
    if (scenario === "store") {
      this.end("configured");
      this.state = "recording";
      this.raise("folder", "critical", "folder_fault", "Folder /data/b cannot be written", 1, 0, "/data/b");
    }
    if (scenario === "alarms") {
      this.raise("disk-hours", "critical", "Disk is nearly full", "0.6 h left at this rate", 0.6, 1);
      this.raise("queue", "warning", "A queue is nearly full", "frames waiting: 84 % of 256 MB", 0.84, 0.8);
      this.raise("clock", "info", "Clock is off", "0.12 s from the time server", 0.12, 0.1);
    }
    if (scenario === "good") {
      const ended = new Date().toISOString();
      for (const alarm of this.alarms.values()) Object.assign(alarm, { state: "cleared", ended });
      this.tell("alarm", { alarms: [...this.alarms.values()] });
    }
    if (scenario === "good" && !this.run) this.begin(0, "");
  }

  /** @param {string} id @param {Severity} severity @param {string} name @param {string} text @param {number} value @param {number} threshold @param {string | null} source */
  raise(id, severity, name, text, value, threshold, source = null) {
    /** @type {Alarm} */
    const alarm = {
      id, name, severity, state: "active", text, value, threshold,
      since: new Date(Date.now() - 41_000).toISOString(), ended: null, acknowledged_by: null, source,
      group: null, sources: source === null ? [] : [source], source_count: source === null ? 0 : 1,
    };
    this.alarms.set(id, alarm);
    this.tell("alarm", { alarms: [...this.alarms.values()] });
    this.log(severity === "critical" ? "error" : "warn", "catchment_watch", `alarm raised: ${name}`, { alarm: id });
  }

  /** @param {"error" | "warn" | "info"} level @param {string} target @param {string} message @param {Record<string, string>} fields */
  log(level, target, message, fields = {}) {
    const line = { number: (this.lines.at(-1)?.number ?? 0) + 1, time: new Date().toISOString(), level, target, message, fields };
    this.lines.push(line);
    this.tell("log", line);
  }

  /** @param {string} event @param {unknown} data */
  tell(event, data) {
    for (const listener of this.listeners) listener(event, data);
  }

  /** @param {number} seconds_ago @param {string} comment */
  begin(seconds_ago, comment) {
    const started = new Date(Date.now() - seconds_ago * 1000);
    const stamp = started.toISOString().slice(0, 19).replace(/[-:]/g, "").replace("T", "-");
    const id = randomBytes(16).toString("hex");
    this.state = "recording";
    this.reason = null;
    this.loss = {};
    this.bad = {};
    const events = Math.floor(seconds_ago * MEAN_EVENTS_PER_SECOND);
    this.fragments = events * this.sources.all.length;
    this.run = {
      number: this.next, id, folder: `/data/runs/run-${stamp}-${id.slice(0, 8)}`,
      started: started.toISOString(), seconds: seconds_ago, who: "anna", comment, events,
      emulated: this.scenario.startsWith("emulated"),
      frames: Math.floor(seconds_ago), files: 1 + Math.floor(seconds_ago / 120),
      bytes_written: Math.floor(events * 32_700),
    };
    this.next += 1;
    this.remarks = comment === "" ? [] : [this.said("start", comment)];
  }

  /** @param {string} kind @param {string} text @returns {import("../src/api.ts").Remark} */
  said(kind, text) {
    return { time: new Date().toISOString(), who: "anna", kind, text };
  }

  /** @param {import("../src/api.ts").Run} run @param {string} kind @param {string} text */
  remark(run, kind, text) {
    run.remarks = [...(run.remarks ?? []), this.said(kind, text)];
    if (run.number === this.run?.number) this.remarks = run.remarks;
  }

  /** @returns {import("../src/api.ts").Run | null} */
  current() {
    if (!this.run) return null;
    const lost = Object.values(this.loss).reduce((sum, value) => sum + value, 0);
    return {
      number: this.run.number, id: this.run.id, started: this.run.started, ended: null,
      who: this.run.who, comment: this.run.comment, configuration: 12,
      emulated: this.run.emulated, state: "recording", quality: "unknown",
      events: Math.floor(this.run.events), bytes: Math.floor(this.run.bytes_written),
      frames: Math.floor(this.run.frames), files: this.run.files, loss_count: Math.floor(lost), bad_count: 0,
      folder: this.run.folder, remarks: this.remarks,
    };
  }

  /** Newest first, with the one that is recorded. */
  catalogue() {
    const current = this.current();
    return current ? [current, ...this.runs] : this.runs;
  }

  /** @param {DeviceState} state */
  end(state) {
    const current = this.current();
    if (current) {
      const ended = new Date().toISOString();
      this.runs.unshift({ ...current, ended, state: state === "fault" ? "fault" : "complete" });
    }
    this.run = null;
    this.state = state;
  }

  step() {
    const now = Date.now();
    const seconds = Math.min((now - this.last) / 1000, 2);
    this.last = now;
    const flowing = this.scenario !== "idle" && this.scenario !== "quiet";
    /** @type {Map<string, { status: SourceStatus, entries: Counts }>} */
    const faults = new Map();
    if (this.scenario === "loss") {
      faults.set("medium-07", { status: "loss", entries: { fragments_missing: 31, packets_dropped_by_kernel: 2 } });
      faults.set("small-41", { status: "loss", entries: { fragments_late: 9 } });
    }
    if (this.scenario === "bad") {
      faults.set("small-05", { status: "bad_data", entries: { fragments_bad_sender: MEAN_EVENTS_PER_SECOND } });
    }
    if (this.scenario === "silent") {
      faults.set("large-03", { status: "silent", entries: { fragments_missing: MEAN_EVENTS_PER_SECOND } });
      const dead = this.sources.all.find((source) => source.name === "large-03");
      if (dead && (dead.last_packet_seconds ?? 0) < 47) dead.last_packet_seconds = 47;
    }
    this.sources.step(seconds, flowing, faults);
    for (const source of this.sources.all) source.targets = linesOf(this.scenario, source.ledger);
    if (!this.run) for (const source of this.sources.all) source.status = "off";
    const recording = this.state === "recording" && flowing;
    this.rate = recording ? MEAN_EVENTS_PER_SECOND * (1 + 0.01 * (this.random() - 0.5)) : 0;
    if (!this.run) return;
    this.run.seconds += seconds;
    this.run.events += this.rate * seconds;
    this.run.frames += recording ? seconds : 0;
    this.run.bytes_written += this.rate * 32_700 * seconds;
    this.fragments += this.rate * this.sources.all.length * seconds;
    if (recording) for (const { status, entries } of faults.values()) {
      add(status === "bad_data" ? this.bad : this.loss, Object.fromEntries(Object.entries(entries).map(([key, value]) => [key, value * seconds])));
    }
  }

  /** @returns {Verdict} */
  verdict() {
    if (this.scenario === "store") {
      return { level: "good", loss_share: null, bad_share: null, text: "storing 1 stream", reasons: [`/data/b is not used: ${FAILED}`, "run-000317 broke off: its recorder is gone and has not ended it"] };
    }
    if (this.state === "paused") {
      return { level: "not_recording", loss_share: null, bad_share: null, text: `paused by anna since ${this.paused_since} UTC`, reasons: [] };
    }
    if (this.state === "fault" && this.run) {
      const reasons = ["data arrive but cannot be written to the disk", `fault: ${FULL}`];
      const text = "disk full: make room, and recording resumes by itself";
      return { level: "not_recording", loss_share: null, bad_share: null, text, reasons };
    }
    if (this.state === "fault") {
      return { level: "not_recording", loss_share: null, bad_share: null, text: `fault: ${this.reason ?? "unknown"}`, reasons: ["no run"] };
    }
    if (!this.run) return { level: "not_recording", loss_share: null, bad_share: null, text: "no run", reasons: [] };
    if (this.scenario === "young") {
      const text = "the run began 2 s ago, the first data are on their way";
      return { level: "not_recording", loss_share: 0, bad_share: 0, text, reasons: [] };
    }
    if (this.scenario === "quiet") {
      return { level: "not_recording", loss_share: 0, bad_share: 0, text: "no data from any source for 12 s", reasons: [] };
    }
    if (this.scenario === "frozen") {
      const text = "data are only held in memory: the disk has completed no write for 2 s";
      return { level: "held", loss_share: 0, bad_share: 0, text, reasons: [text] };
    }
    if (this.scenario === "loss") {
      return { level: "loss", loss_share: 0.0034, bad_share: 0, text: "recording with loss, 0.34 % of the data", reasons: ["medium-07: 1,860 lost in the last minute (missing fragments)", "small-41: 540 lost in the last minute (late fragments)"] };
    }
    if (this.scenario === "bad") {
      return { level: "bad_data", loss_share: 0, bad_share: 0.011, text: "recording, but 1.1 % of the data are bad", reasons: ["small-05: 3,709 bad in the last minute (fragments marked broken by their sender)"] };
    }
    if (this.scenario === "heavy") {
      return { level: "heavy_loss", loss_share: 0.912, bad_share: 0, text: "losing 91 % of the data", reasons: ["small-00: 2,248,410 lost in the last minute (missing fragments of lost events)"] };
    }
    if (this.scenario === "silent") {
      return { level: "loss", loss_share: 0, bad_share: 0, text: "recording with loss", reasons: ["large-03: silent for 47 s; its fragments are missing from every event"] };
    }
    if (this.scenario === "targets") {
      const text = "target copy: the run's folder is gone: put it back, and recording resumes by itself";
      return { level: "good", loss_share: 0, bad_share: 0, text: `recording good data; ${text}`, reasons: [text] };
    }
    if (this.scenario === "nodes") {
      const text = `target archive takes nothing, its frames go to its spill: ${SPILLED}`;
      return { level: "good", loss_share: 0, bad_share: 0, text: `recording good data; ${text}`, reasons: [text] };
    }
    return { level: "good", loss_share: 0, bad_share: 0, text: "recording good data", reasons: [`events reach the disk; all ${this.sources.all.length} sources deliver; no loss in the last 60 s`] };
  }

  /** @returns {LegalCommand[]} */
  commands() {
    if (this.under_way) return [];
    const number = this.run?.number;
    const of_run = this.scenario === "store" ? [] : LEGAL[this.state];
    /** @type {CommandName[]} */
    const legal = [...of_run.filter((name) => name !== "stop" || this.run), "shutdown"];
    return legal.map((name) => ({
      name,
      confirm: name === "stop" ? `Ends run ${number} for everybody.`
        : name === "shutdown" ? "Ends the run and the program: this page goes with it."
        : name === "reset" && this.run ? `Ends run ${number} and forgets the fault.`
        : name === "pause" ? `Data that arrive while run ${number} is paused are discarded.` : null,
    }));
  }

  /** @returns {Stage[]} */
  flow() {
    const on = this.state === "recording" && this.scenario !== "quiet";
    const slow = this.scenario === "alarms";
    /** @param {string} name @param {number} level @param {number} highest @param {number} capacity */
    const queue = (name, level, highest, capacity) => ({
      name, level_bytes: on ? Math.round(level * capacity) : 0, highest_bytes: Math.round(highest * capacity), capacity_bytes: capacity,
    });
    const wobble = this.random() * 0.01;
    const rate = this.rate * 32_700;
    return [
      { name: "receive", busy: on ? 0.09 + wobble : 0, bytes_per_second: rate, bottleneck: false,
        queues: [queue("socket buffers", 0.02 + wobble, 0.11, 1.5e9), queue("segments", 0.04 + wobble, 0.06, 7.3e8)] },
      { name: "build", busy: on ? 0.03 + wobble : 0, bytes_per_second: rate, bottleneck: false,
        queues: [queue("descriptors", 0.01, 0.04, 1.26e7)] },
      { name: "encode", busy: on ? 0.21 + wobble : 0, bytes_per_second: rate, bottleneck: false,
        queues: [queue("columns", 0.05 + wobble, 0.2, 6.7e7)] },
      { name: "write", busy: on ? (slow ? 0.97 : 0.04) : 0, bytes_per_second: rate, bottleneck: slow,
        queues: [queue("frames waiting", slow ? 0.84 : 0.03, slow ? 0.91 : 0.08, 2.56e8)] },
      { name: "disk", busy: on ? (slow ? 0.99 : 0.31 + wobble) : 0, bytes_per_second: rate, bottleneck: false,
        queues: [queue("write buffers", slow ? 1 : 0.25, 1, 3.36e7)] },
    ];
  }

  /** @returns {State} */
  snapshot() {
    const sources = this.sources.all;
    const bad = Object.values(this.bad).reduce((sum, value) => sum + value, 0);
    const lost = Object.values(this.loss).reduce((sum, value) => sum + value, 0);
    const alarms = [...this.alarms.values()].filter((alarm) => alarm.state !== "cleared");
    const packets = sources.reduce((sum, source) => sum + (source.packets_per_second ?? 0), 0);
    const bytes = sources.reduce((sum, source) => sum + (source.bytes_per_second ?? 0), 0);
    const losing = sources.reduce((sum, source) => sum + (source.loss_per_second ?? 0), 0);
    const hours = this.scenario === "alarms" ? 0.6 : 14.2;
    return {
      node: { name: "hades-eb01", version: "0.1.0", started: new Date(this.began - 9e6).toISOString(), uptime_seconds: 9000 + (Date.now() - this.began) / 1000 },
      time: new Date().toISOString(),
      verdict: this.verdict(),
      state: this.state,
      reason: this.reason,
      under_way: this.under_way,
      commands: this.commands(),
      emulated: this.scenario.startsWith("emulated"),
      run: this.run && { ...this.run, events: Math.floor(this.run.events), frames: Math.floor(this.run.frames), bytes_written: Math.floor(this.run.bytes_written) },
      rates: {
        events_per_second: this.rate, packets_per_second: packets, bytes_per_second: bytes,
        bytes_written_per_second: this.rate * 32_700, loss_per_second: this.run ? losing : 0,
      },
      loss: { count: Math.floor(lost), share: this.fragments > 0 ? lost / this.fragments : null, by_entry: whole(this.loss) },
      bad: { count: Math.floor(bad), share: this.fragments > 0 ? bad / this.fragments : null, by_entry: whole(this.bad) },
      dead_time: this.state === "paused" ? 1 : 0,
      memory_seconds: null,
      disk: {
        folder: "/data/runs", free_bytes: this.state === "fault" ? 0 : hours * 3600 * 131e6,
        total_bytes: DISK_BYTES, hours_left: this.state === "fault" ? 0 : this.run ? hours : null,
      },
      flow: this.flow(),
      targets: targets(this.scenario, sources, { rate: this.rate * 32_700, written: this.run?.bytes_written ?? 0, open: this.run !== null }),
      spills: spills(this.scenario),
      store: this.scenario === "store" ? store((Date.now() - this.began) / 1000) : null,
      sources: {
        count: sources.length,
        silent: sources.filter((source) => source.status === "silent" || source.status === "never").length,
        with_loss: sources.filter((source) => source.status === "loss").length,
        with_bad_data: sources.filter((source) => source.status === "bad_data").length,
      },
      alarms: {
        critical: alarms.filter((alarm) => alarm.severity === "critical").length,
        warning: alarms.filter((alarm) => alarm.severity === "warning").length,
        unacknowledged: alarms.filter((alarm) => alarm.state !== "acknowledged").length,
      },
      warnings: this.scenario === "targets" ? [`target copy: ${GONE}`] : this.scenario === "alarms" ? ["Socket buffers of 212 kB each, 16.8 MB asked for: raise net.core.rmem_max."] : [],
    };
  }

  /**
   * Runs a command; the answer may be "under way".
   * @param {CommandRequest} request @returns {CommandResult | { refused: string }}
   */
  command(request) {
    const before = this.results.get(request.request);
    if (before) return before;
    if (this.under_way) return { refused: `${this.under_way.command} is under way` };
    const current = this.run?.number ?? null;
    if (request.run !== null && request.run !== current) {
      const now = current === null ? "there is no current run" : `the current run is ${current}`;
      return { refused: `${request.command} is meant for run ${request.run}, but ${now}` };
    }
    if (!this.commands().some(({ name }) => name === request.command)) {
      return { refused: `${request.command} is not legal in state ${this.state}` };
    }
    if (this.scenario === "refuse") return { refused: "node/recorder/receive: cannot bind 0.0.0.0:20007: address in use" };
    const began = Date.now();
    /** @type {CommandResult} */
    const result = {
      request: request.request, command: request.command, status: "under_way", state: this.state,
      reason: null, run: this.run?.number ?? null, who: "anna", time: new Date().toISOString(), seconds: 0,
    };
    this.results.set(request.request, result);
    this.under_way = {
      request: request.request, command: request.command, since: result.time,
      waiting_for: ["node/recorder/write"],
      reason: null,
    };
    if (this.scenario === "hang") return result;
    this.carryOut(request);
    this.under_way = null;
    Object.assign(result, { status: "done", state: this.state, run: this.run?.number ?? result.run, seconds: (Date.now() - began) / 1000 + 0.2 });
    this.log("info", "catchment_control", `${request.command}: done`, { who: "anna", request: request.request });
    return result;
  }

  /** @param {CommandRequest} request */
  carryOut(request) {
    if (request.comment && request.command !== "start") this.remarks.push(this.said(request.command, request.comment));
    const to = LEADS_TO[request.command];
    if (request.command === "start") this.begin(0, request.comment ?? "");
    else if (request.command === "stop") this.end("configured");
    else if (to) this.state = to;
    if (request.command === "start" && this.scenario === "idle") this.scenario = "good";
    if (request.command === "reset") {
      if (this.run) this.end("fault");
      this.state = "idle";
      this.reason = null;
    }
    if (request.command === "pause") this.paused_since = new Date().toISOString().slice(11, 19);
  }

  /** @returns {Device[]} */
  devices() {
    /** @param {string} path @param {string} kind @param {Record<string, unknown>} properties @returns {Device} */
    const device = (path, kind, properties) => ({
      path, kind, state: this.state, commands: [], properties,
      reason: path === "node/recorder/write" ? this.reason : null,
      schema: `/api/v1/devices/${path}/schema`,
    });
    return [
      device("node", "node", { name: "hades-eb01" }),
      device("node/recorder", "recorder", { memory_budget_bytes: 1_073_741_824, folder: "/data/runs" }),
      device("node/recorder/receive", "receiver", { threads: 1, coalesce_seconds: 0.0002, socket_buffer_bytes: 16_777_216 }),
      device("node/recorder/build", "builder", { timeout_seconds: 1, window_events: 262_144, incomplete: "keep" }),
      device("node/recorder/write", "writer", { engine: "io_uring", file_bytes: 16e9, codec: "auto" }),
      device("node/catalog", "catalogue", { runs: this.runs.length }),
      device("node/front_ends/camera", "front-end", { status: "cooling down", gain: this.gain }),
    ];
  }

  /** @param {string} path */
  schema(path) {
    const gain = { type: "number", description: "a setting", unit: "dB", minimum: 0, maximum: 20 };
    const settable = path === "node/front_ends/camera" ? { gain } : {};
    const names = Object.keys(this.devices().find((device) => device.path === path)?.properties ?? {});
    const fixed = names.map((name) => [name, { type: "string", description: name, readOnly: true }]);
    return { type: "object", properties: { ...Object.fromEntries(fixed), ...settable } };
  }

  /** @param {number} seconds @param {number} points */
  history(seconds, points) {
    return history(Math.min(seconds, HISTORY_SECONDS), points, this.scenario);
  }
}
