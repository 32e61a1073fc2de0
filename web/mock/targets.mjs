// The mock's targets: one, or, in the scenario of that name, a required one that records, one that
// cannot, one that is best effort and behind, and one that keeps nothing. In the scenario nodes: a
// target of three storage nodes, one of which is away, and one of one node with a spill.

import { add, whole } from "./sources.mjs";

/** @import {Counts, Queue, SourceState, Spill, Target, TargetNode} from "../src/api.ts" */

export const GONE = "cannot make /data/copies/run-20261121-075912-6d1f0c52/run-00009.catch: No such file or directory (os error 2)";

/**
 * @typedef {{ name: string, required: boolean, folder: string | null, part: number, discards?: boolean,
 *   nodes?: string[], spills?: boolean }} Kind
 */

/** @type {Kind[]} */
const ONE = [{ name: "local", required: true, folder: "/data/runs", part: 1 }];
/** @type {Kind[]} */
const SEVERAL = [
  { name: "raid", required: true, folder: "/data/runs", part: 1 },
  { name: "copy", required: true, folder: "/data/copies", part: 0.6, discards: true },
  { name: "mirror", required: false, folder: "/mnt/server/runs", part: 0.875 },
  { name: "nothing", required: false, folder: null, part: 0 },
];

/** @type {Kind[]} */
const NODES = [
  { name: "store", required: true, folder: null, part: 1, nodes: ["10.0.0.7:7100", "10.0.0.8:7100", "10.0.0.9:7100"] },
  { name: "archive", required: true, folder: null, part: 1, nodes: ["archive:7100"], spills: true },
];

/** @param {string} scenario */
const kinds = (scenario) => (scenario === "targets" ? SEVERAL : scenario === "nodes" ? NODES : ONE);

export const UNREACHED = "archive:7100: it is away: Connection refused (os error 111)";

/** @param {string} scenario @returns {Spill[]} */
export const spills = (scenario) => scenario !== "nodes" ? [] : [{
  target: "archive", folder: "/local/spill", node: "archive:7100", bytes_max: 107_374_182_400,
  frames_spilled: 1_432, bytes_spilled: 11_744_051_200, frames_forwarded: 1_001, bytes_forwarded: 8_211_404_800,
  frames_lost: 0, frames_waiting: 431, bytes_waiting: 3_532_646_400, waits_seconds: 0, room_seconds: 8_640, problems: [],
}];

/**
 * The second of several nodes is away.
 * @param {string[]} nodes @param {{ written: number, open: boolean }} run @returns {TargetNode[]}
 */
const shares = (nodes, { written, open }) => nodes.map((address, index) => {
  const bytes = Math.floor(written / nodes.length);
  const away = open && index === 1 ? "it is away: Connection refused (os error 111)" : null;
  return {
    address, is_connected: open && away === null, frames_durable: Math.floor(bytes / 8_200_000),
    bytes_durable: bytes, bytes_held: open && away === null ? 12_582_912 : 0,
    away_since_ns: away === null ? null : (Date.now() - 42_000) * 1e6, away,
  };
});

/** @param {Kind} kind @param {Counts} ledger @returns {Counts} */
function line({ part, discards = false }, ledger) {
  const all = ledger.fragments_recorded ?? 0;
  const recorded = Math.floor(all * part);
  return whole({
    fragments_recorded: recorded, fragments_durable: recorded,
    [discards ? "fragments_discarded_disk" : "fragments_not_taken"]: all - recorded,
  });
}

/**
 * A source's lines; none where there is one target.
 * @param {string} scenario @param {Counts} ledger
 */
export function linesOf(scenario, ledger) {
  const all = kinds(scenario);
  return Object.fromEntries(all.length < 2 ? [] : all.map((kind) => [kind.name, line(kind, ledger)]));
}

/**
 * @param {string} scenario @param {SourceState[]} sources
 * @param {{ rate: number, written: number, open: boolean }} run @returns {Target[]}
 */
export function targets(scenario, sources, { rate, written, open }) {
  /** @type {Counts} */
  const total = {};
  for (const { ledger } of sources) add(total, { fragments_recorded: ledger.fragments_recorded ?? 0 });
  /** @param {string} name @param {number} level @param {number} capacity @returns {Queue} */
  const queue = (name, level, capacity) => ({
    name, level_bytes: Math.floor(level * capacity), highest_bytes: capacity, capacity_bytes: capacity,
  });
  return kinds(scenario).map((kind) => {
    const { name, required, folder, part, discards = false, nodes = [], spills: isSpilling = false } = kind;
    return {
      name, required, folder, node: nodes.length === 0 ? null : nodes.join(", "),
      folders: folder === null ? [] : [
        { path: folder, is_current: open && !discards, free_bytes: 812_000_000_000, away: null, waits_seconds: 0 },
      ],
      nodes: shares(nodes, { written, open }),
      state: discards ? "fault" : !open ? "ended" : isSpilling ? "spilling" : "recording",
      reason: discards ? GONE : open && isSpilling ? UNREACHED : null,
      bytes_written: Math.floor(written * part),
      bytes_written_per_second: discards ? 0 : rate * part,
      queue: queue(name, open && !required && folder !== null ? 0.93 : 0, required ? 4_194_304 : 53_687_091),
      buffers: folder === null ? null : queue("write buffers", 0.25, 33_554_432),
      ledger: line(kind, total),
    };
  });
}
