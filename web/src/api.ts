// The types of the HTTP API under /api/v1. Times are RFC 3339 in UTC, durations seconds,
// rates per second. A null is a value that is not known, never a zero.

export type Level = "good" | "held" | "bad_data" | "loss" | "heavy_bad_data" | "heavy_loss" | "not_recording";
export type DeviceState =
  | "idle" | "configured" | "armed" | "recording" | "paused" | "safe" | "fault";
export type CommandName =
  | "configure" | "arm" | "start" | "pause" | "resume" | "stop" | "disarm" | "reset" | "shutdown";
export type Role = "viewer" | "operator" | "admin" | "source" | "node";
export type Counts = Record<string, number>;

/** Without a cookie there is nothing to forge: csrf is null. */
export interface Session { name: string; role: Role; csrf: string | null }

/** `loss_share`: of what should have been recorded in the last 10 s; `bad_share`: of what was. */
export interface Verdict {
  level: Level;
  loss_share: number | null;
  bad_share: number | null;
  text: string;
  reasons: string[];
}

export interface LegalCommand { name: CommandName; confirm: string | null }

export interface UnderWay {
  request: string;
  command: CommandName;
  since: string;
  waiting_for: string[];
  /** What it waits for, where somebody must do something. */
  reason: string | null;
}

export interface CurrentRun {
  number: number;
  id: string;
  folder: string;
  started: string;
  seconds: number;
  who: string;
  comment: string;
  emulated: boolean;
  events: number;
  frames: number;
  files: number;
  bytes_written: number;
}

export interface Rates {
  events_per_second: number | null;
  packets_per_second: number | null;
  bytes_per_second: number | null;
  bytes_written_per_second: number | null;
  loss_per_second: number | null;
}

export interface Queue {
  name: string;
  level_bytes: number;
  highest_bytes: number;
  capacity_bytes: number;
}

export type TargetState = "recording" | "spilling" | "away" | "fault" | "ended";

/** A place that gets the run's frames. */
export interface Target {
  name: string;
  /** Whether the run waits for it; otherwise it is best effort. */
  required: boolean;
  /** Null: it has none here. */
  folder: string | null;
  /** The address of its storage node; null: it is none. */
  node: string | null;
  state: TargetState;
  reason: string | null;
  bytes_written: number;
  bytes_written_per_second: number;
  queue: Queue;
  buffers: Queue | null;
  /** Its folders, if it has any. */
  folders: TargetFolder[];
  /** Its storage nodes, if it has any. */
  nodes: TargetNode[];
  ledger: Counts;
}

/** A folder of a target. */
export interface TargetFolder {
  path: string;
  is_current: boolean;
  free_bytes: number | null;
  /** Why its disk was left; null: it was not. */
  away: string | null;
  /** For how long a write, a sync or a close has not completed; 0: none is under way. */
  waits_seconds: number;
}

/** A storage node of a target. */
export interface TargetNode {
  address: string;
  is_connected: boolean;
  frames_durable: number;
  bytes_durable: number;
  /** Of frames for it that it has not acknowledged. */
  bytes_held: number;
  /** Since when it takes nothing, in nanoseconds since 1970, and why; null: it does. */
  away_since_ns: number | null;
  away: string | null;
}

/** What takes the frames that a target's storage node, or its folder, cannot take now. */
export interface Spill {
  target: string;
  folder: string;
  node: string;
  bytes_max: number;
  frames_spilled: number;
  bytes_spilled: number;
  frames_forwarded: number;
  bytes_forwarded: number;
  frames_lost: number;
  frames_waiting: number;
  bytes_waiting: number;
  /** For how long its disk has not answered; 0: nothing is under way. */
  waits_seconds: number;
  /** For how long it has room, while its target's frames go there; null: they do not. */
  room_seconds: number | null;
  problems: string[];
}

export interface Stage {
  name: string;
  busy: number | null;
  queues: Queue[];
  bytes_per_second: number | null;
  bottleneck: boolean;
}

export type StreamState = "open" | "waits" | "broken_off" | "cut_off" | "ended";

/** What one recorder sends of one run to a storage node. Positions are numbers of frames. */
export interface StoreStream {
  name: string;
  run: string;
  stream: number;
  variant: number;
  recorder: string | null;
  state: StreamState;
  reason: string | null;
  taken: number;
  durable: number;
  bytes_written: number;
  bytes_written_per_second: number;
  syncs: { count: number; total_seconds: number; last_seconds: number; longest_seconds: number };
}

export interface StoreFolder {
  path: string;
  free_bytes: number | null;
  total_bytes: number | null;
  bytes_written: number;
  bytes_written_per_second: number;
  failures: number;
  /** Null: it works. */
  fault: string | null;
}

/** A storage node. */
export interface Store {
  address: string;
  tls: boolean;
  tokens: boolean;
  /** The newest last. */
  streams: StoreStream[];
  folders: StoreFolder[];
  frames: { taken: number; taken_bytes: number; repeated: number; corrupt: number; unfit: number; superseded: number };
  /** Sessions, by reason. */
  refusals: Counts;
  connections_unopened: number;
  faults: number;
  waiting_bytes: number;
  memory_bytes: number;
}

/** A run of which a node has files. */
export interface StoredRun {
  name: string;
  files: number;
  bytes: number;
  streams: number[];
  /** How many of its files. */
  being_written: number;
}

export interface StoredList {
  runs: StoredRun[];
  /** Of all, without a limit. */
  total: number;
}

export interface StoredFile {
  name: string;
  folder: number;
  stream: number;
  bytes: number;
  being_written: boolean;
}

export interface StoredFiles {
  name: string;
  files: StoredFile[];
}

export interface State {
  node: { name: string; version: string; started: string; uptime_seconds: number };
  time: string;
  verdict: Verdict;
  state: DeviceState;
  reason: string | null;
  under_way: UnderWay | null;
  commands: LegalCommand[];
  /** Whether the node itself sends what it records. */
  emulated: boolean;
  run: CurrentRun | null;
  rates: Rates;
  loss: { count: number; share: number | null; by_entry: Counts };
  bad: { count: number; share: number | null; by_entry: Counts };
  dead_time: number | null;
  /** How long memory lasts at this rate while a required target takes nothing. */
  memory_seconds: number | null;
  disk: {
    folder: string;
    free_bytes: number | null;
    total_bytes: number | null;
    /** At the rate at which it is written; null while nothing is. */
    hours_left: number | null;
  } | null;
  flow: Stage[];
  /** Of the run or of the last one; empty before the first. */
  targets: Target[];
  /** Also before the first run. */
  spills: Spill[];
  /** Null: the node is a recorder. */
  store: Store | null;
  sources: { count: number; silent: number; with_loss: number; with_bad_data: number };
  alarms: { critical: number; warning: number; unacknowledged: number };
  warnings: string[];
}

/** `off` is the page's own: without a run nothing is received, and no source is in trouble. */
export type SourceStatus = "good" | "bad_data" | "loss" | "out_of_step" | "silent" | "never" | "off";

export interface SourceState {
  name: string;
  index: number;
  group: string;
  kind: "events" | "channels";
  status: SourceStatus;
  required: boolean;
  address: string;
  /** Networks that it may send from; empty: anybody. */
  from: string[];
  packets_per_second: number | null;
  bytes_per_second: number | null;
  loss_per_second: number | null;
  loss: Counts;
  bad: Counts;
  fill: number | null;
  parked_fragments: number;
  /** How its numbers, or its clock, differ from the others', in plain words. */
  astray: string | null;
  /** What befell its connections, if it is delivered over a session. */
  link: LinkState;
  /** Its times less those of its events; null unless events are built by time. */
  offsets: Offsets | null;
  last_packet_seconds: number | null;
  ledger: Counts;
  /** Its part of each target's ledger; empty if there is one target. */
  targets: Record<string, Counts>;
}

export interface LinkState {
  waits: number;
  waited_ms: number;
  marks_ignored: number;
  fragments_skew: number;
  /** By the front-end, in the run, by reason. */
  abandoned: Counts;
  /** Items of its session: made as far as its sender has said, in memory, and on disk. */
  made: number;
  taken: number;
  durable: number;
  /** Until when its sender keeps them; null: no session delivers it. */
  release: "durable" | "taken" | null;
  /** How long items of the last seconds took from taken to durable; null: none was. */
  until_durable_ms_median: number | null;
  until_durable_ms_p99: number | null;
}

/** Nearest times of a source around events without it, beyond their window; negative: before it. */
export interface BeyondBin { from_ns: number; count: number }

export interface Offsets {
  count: number;
  mean_ns: number;
  first_ns: number;
  bin_ns: number;
  bins: number[];
  /** The time_offset that they suggest; null if nothing stands out of chance. */
  suggested_ns: number | null;
  /** What then holds 99.9 % of each source's fragments: one window for all. */
  window_ns: number | null;
  /** How far it is from most events, if that is beyond their window. */
  beyond_ns: number | null;
  /** How much faster its clock is than the events' time; null: not known, or within its jitter. */
  drift_ppm: number | null;
  beyond: BeyondBin[];
}

/** Whether a source is in an event; absent: it was expected. */
export interface SampleAnswer { event: number; answer: "there" | "absent" | "not_expected" }

export interface Sample {
  name: string;
  event: number | null;
  time: string | null;
  bytes: string;
  total_bytes: number;
  array: { dtype: string; shape: number[]; values: (number | null)[] } | null;
  histogram: {
    what: "payload_bytes" | "value";
    edges: number[];
    counts: number[];
  } | null;
  /** Of the last frame's last events, in order; empty for channels. */
  answers: SampleAnswer[];
  /** Which of a link's channels; null for sources of events. */
  channel: {
    name: string;
    unit: string;
    scale: number | null;
    offset: number | null;
    rate_hz: number;
    first_sample: number;
    samples: number;
    channel_count: number;
    /** Their names, when none was asked for. */
    channels: string[];
  } | null;
}

export interface Device {
  path: string;
  kind: string;
  state: DeviceState;
  reason: string | null;
  commands: string[];
  properties: Record<string, unknown>;
  schema: string;
}

export interface CommandRequest {
  request: string;
  command: CommandName;
  device: string | null;
  comment: string | null;
  configuration: number | null;
  /** The run that it is meant for: refused if another, or none, is the current one. */
  run: number | null;
}

export interface CommandResult {
  request: string;
  command: CommandName;
  status: "done" | "failed" | "under_way";
  state: DeviceState;
  reason: string | null;
  run: number | null;
  who: string;
  time: string;
  seconds: number;
}

export type Quality = "unknown" | "good" | "questionable" | "bad" | "test";
export type RunState = "starting" | "recording" | "complete" | "fault" | "interrupted" | "failed";

/** What somebody said of a run, or with a command. Remarks are appended and never changed. */
export interface Remark {
  time: string;
  /** Empty where nobody wrote down who. */
  who: string;
  /** The command, or `remark`; `comment` from before there were remarks. */
  kind: string;
  text: string;
}

export interface Run {
  number: number;
  id: string;
  started: string | null;
  ended: string | null;
  who: string;
  comment: string;
  configuration: number | null;
  emulated: boolean;
  state: RunState;
  quality: Quality;
  events: number;
  bytes: number;
  frames: number;
  files: number;
  loss_count: number;
  bad_count: number;
  folder: string;
  /** Why it failed, or ended in a fault. */
  reason?: string | null;
  /** Oldest first; not in lists. */
  remarks?: Remark[];
}

export interface RunPage { runs: Run[]; next: number | null }

/** The books of one run: the sum over all sources, and each source's nonzero entries. Null: it is
 * being recorded, or its files are not at hand. */
export interface RunLedger {
  balanced: boolean | null;
  totals: Counts;
  sources: Record<string, Counts>;
}

export type LogLevel = "error" | "warn" | "info" | "debug" | "trace";

export interface LogLine {
  number: number;
  time: string;
  level: LogLevel;
  target: string;
  message: string;
  fields: Record<string, string>;
}

export type Severity = "info" | "warning" | "critical";

export interface Alarm {
  id: string;
  name: string;
  severity: Severity;
  state: "active" | "latched" | "acknowledged" | "cleared";
  text: string;
  value: number | null;
  threshold: number | null;
  since: string;
  /** When it was cleared, or when all was well again; null while it is wrong. */
  ended: string | null;
  acknowledged_by: string | null;
  /** The source or queue that it is about, if it is one. */
  source: string | null;
  group: string | null;
  /** The sources or queues that it is about: the first 1,000 of `source_count`. */
  sources: string[];
  source_count: number;
}

export type SeriesName =
  | "events_per_second" | "bytes_per_second" | "bytes_written_per_second" | "loss_per_second";

export interface History {
  start: string;
  step_seconds: number;
  series: Record<SeriesName, (number | null)[]>;
}

/** RFC 9457. */
export interface Problem {
  type?: string;
  title: string;
  status: number;
  detail?: string;
  instance?: string;
  /** Of a command that was carried out and failed. */
  result?: CommandResult;
}
