// The mock's sources: HADES' 60 small, 20 medium and 10 large ones, or as many as are asked for.
// Their rates wobble a little, by a generator with a fixed seed, as real ones do.

/** @import {Counts, LinkState, Offsets, Sample, SampleAnswer, SourceState, SourceStatus} from "../src/api.ts" */

/** @param {number} seed */
export function generator(seed) {
  let state = seed >>> 0;
  return () => {
    // Mulberry32: enough for noise, and the same everywhere.
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const GROUPS = [
  { name: "small", share: 60, bytes: 116 },
  { name: "medium", share: 20, bytes: 338 },
  { name: "large", share: 10, bytes: 1170 },
];
const EVENTS_PER_SECOND = 4000;
/** Headers, and a huge sub-event now and then. */
const OVERHEAD = 1.25;

export class Sources {
  /** @param {number} count @param {() => number} random */
  constructor(count, random) {
    this.random = random;
    /** @type {(SourceState & { mean: number })[]} */
    this.all = [];
    for (const group of GROUPS) {
      const members = Math.max(1, Math.round((count * group.share) / 90));
      for (let index = 0; index < members && this.all.length < count; index += 1) {
        this.all.push({
          name: `${group.name}-${String(index).padStart(count > 200 ? 3 : 2, "0")}`,
          index: this.all.length,
          group: group.name,
          kind: "events",
          status: "never",
          required: true,
          address: `127.0.0.1:${21_000 + this.all.length}`,
          from: group.name === "large" ? ["10.1.0.0/16"] : [],
          packets_per_second: 0,
          bytes_per_second: 0,
          loss_per_second: 0,
          loss: {}, bad: {},
          fill: 0,
          parked_fragments: 0,
          astray: null,
          offsets: group.name === "large" ? offsets(this.all.length) : null,
          link: {
            waits: 0, waited_ms: 0, marks_ignored: 0, fragments_skew: 0, abandoned: {}, ...delivery(group.name),
          },
          last_packet_seconds: null,
          ledger: {},
          targets: {},
          mean: group.bytes,
        });
      }
    }
  }

  /**
   * Moves all sources on by `seconds`.
   * @param {number} seconds @param {boolean} flowing
   * @param {Map<string, { status: SourceStatus, entries: Counts }>} faults
   */
  step(seconds, flowing, faults) {
    for (const source of this.all) {
      const fault = faults.get(source.name);
      const silent = !flowing || fault?.status === "silent" || fault?.status === "never";
      const wobble = 1 + 0.04 * (this.random() - 0.5);
      const packets = silent ? 0 : (EVENTS_PER_SECOND / Math.max(1, 32_000 / source.mean)) * wobble;
      const bytes = silent ? 0 : EVENTS_PER_SECOND * source.mean * OVERHEAD * wobble;
      source.packets_per_second = packets;
      source.bytes_per_second = bytes;
      source.fill = silent ? 0 : 0.02 + 0.02 * this.random();
      source.last_packet_seconds = silent
        ? source.last_packet_seconds === null ? null : source.last_packet_seconds + seconds
        : 0.05 * this.random();
      source.status = silent
        ? source.last_packet_seconds === null ? "never" : "silent"
        : (fault?.status ?? "good");
      source.loss_per_second = 0;
      add(source.ledger, {
        packets_received: packets * seconds,
        packets_accepted: packets * seconds,
        packet_bytes_received: bytes * seconds,
        fragments_received: silent ? 0 : EVENTS_PER_SECOND * seconds,
        fragments_recorded: silent ? 0 : EVENTS_PER_SECOND * seconds,
      });
      if (fault && flowing) {
        for (const [entry, perSecond] of Object.entries(fault.entries)) {
          add(source.ledger, { [entry]: perSecond * seconds });
          const bad = fault.status === "bad_data";
          add(bad ? source.bad : source.loss, { [entry]: perSecond * seconds });
          source.loss_per_second += bad ? 0 : perSecond;
        }
      }
    }
  }

  /** Worst first, as the API promises. @returns {SourceState[]} */
  list() {
    const rank = { never: 0, silent: 1, out_of_step: 2, loss: 3, bad_data: 4, good: 5, off: 5 };
    return [...this.all]
      .sort(
        (a, b) =>
          rank[a.status] - rank[b.status] ||
          (b.loss_per_second ?? 0) - (a.loss_per_second ?? 0) ||
          a.index - b.index,
      )
      .map(({ mean: _, ...source }) => ({
        ...source,
        loss: whole(source.loss),
        bad: whole(source.bad),
        ledger: whole(source.ledger),
      }));
  }

  /** @param {string} name @param {number} event @returns {Sample | null} */
  sample(name, event) {
    const source = this.all.find((candidate) => candidate.name === name);
    if (!source) return null;
    const total = Math.round(source.mean * (0.6 + 0.8 * this.random()));
    const shown = Math.min(total, 4096);
    let hex = "";
    for (let index = 0; index < shown; index += 1) {
      const value = index < 16 ? [0, 0, 1, 0x2c, 0, 2, 0, 1, 0, 0, 0x80, source.index][index] ?? 0
        : Math.floor(this.random() * 256);
      hex += value.toString(16).padStart(2, "0");
    }
    const counts = Array.from({ length: 40 }, (_, bin) =>
      Math.round(900 * Math.exp(-(((bin - 16) / 6) ** 2) / 2) * (0.9 + 0.2 * this.random())));
    const edges = Array.from({ length: 41 }, (_, bin) => Math.round(source.mean * (0.2 + bin * 0.05)));
    const values = Array.from({ length: 256 }, (_, index) =>
      Math.round(512 + 380 * Math.exp(-index / 60) * Math.sin(index / 6) + 20 * this.random()));
    return {
      name, event, time: new Date().toISOString(), bytes: hex, total_bytes: total,
      array: source.group === "large" ? { dtype: "uint16", shape: [256], values } : null,
      histogram: { what: "payload_bytes", edges, counts },
      answers: answers(event, source),
      channel: null,
    };
  }
}

/**
 * The large sources are of front-ends that keep data until these are taken.
 * @param {string} group @returns {Pick<LinkState, "made" | "taken" | "durable" | "release" | "until_durable_ms_median" | "until_durable_ms_p99">}
 */
function delivery(group) {
  return group !== "large"
    ? { made: 0, taken: 0, durable: 0, release: null, until_durable_ms_median: null, until_durable_ms_p99: null }
    : { made: 4_000, taken: 3_990, durable: 3_000, release: "taken", until_durable_ms_median: 120, until_durable_ms_p99: 260 };
}

/**
 * A medium source is expected in every second event. What has loss lacks one of eight.
 * @param {number} event @param {SourceState} source @returns {SampleAnswer[]}
 */
function answers(event, source) {
  return Array.from({ length: 16 }, (_, index) => {
    const of = Math.max(0, event - 15) + index;
    const lacks = source.status === "loss" && of % 8 === 0;
    const is_expected = source.group !== "medium" || of % 2 === 0;
    return { event: of, answer: !is_expected ? "not_expected" : lacks ? "absent" : "there" };
  });
}

/** A board some nanoseconds behind the earliest one. @param {number} index @returns {Offsets} */
function offsets(index) {
  const mean_ns = 40 + 7 * (index % 10);
  const bins = Array.from({ length: 12 }, (_, bin) => Math.round(9_000 * Math.exp(-(((bin - 5.5) / 2) ** 2) / 2)));
  const count = bins.reduce((sum, one) => sum + one, 0);
  return {
    count, mean_ns, first_ns: mean_ns - 24, bin_ns: 4, bins, suggested_ns: 40 - mean_ns, window_ns: 64,
    beyond_ns: null, drift_ppm: index % 10 === 3 ? 0.012 : null, beyond: [{ from_ns: -1_048_576, count: 3 }, { from_ns: 786_432, count: 5 }],
  };
}

/** @param {Counts} to @param {Counts} what */
export function add(to, what) {
  for (const [key, value] of Object.entries(what)) to[key] = (to[key] ?? 0) + value;
}

/** @param {Counts} counts @returns {Counts} */
export function whole(counts) {
  return Object.fromEntries(
    Object.entries(counts).map(([key, value]) => /** @type {[string, number]} */ ([key, Math.floor(value)]))
      .filter(([, value]) => value > 0));
}
