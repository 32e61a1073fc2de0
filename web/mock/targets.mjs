// The mock's targets: one, or, in the scenario of that name, a required one that records, one that
// cannot, one that is best effort and behind, and one that keeps nothing.

import { add, whole } from "./sources.mjs";

/** @import {Counts, Queue, SourceState, Target} from "../src/api.ts" */

export const GONE = "cannot make /data/copies/run-20261121-075912-6d1f0c52/run-00009.catch: No such file or directory (os error 2)";

/** @typedef {{ name: string, required: boolean, folder: string | null, part: number, discards?: boolean }} Kind */

/** @type {Kind[]} */
const ONE = [{ name: "local", required: true, folder: "/data/runs", part: 1 }];
/** @type {Kind[]} */
const SEVERAL = [
  { name: "raid", required: true, folder: "/data/runs", part: 1 },
  { name: "copy", required: true, folder: "/data/copies", part: 0.6, discards: true },
  { name: "mirror", required: false, folder: "/mnt/server/runs", part: 0.875 },
  { name: "nothing", required: false, folder: null, part: 0 },
];

/** @param {string} scenario */
const kinds = (scenario) => (scenario === "targets" ? SEVERAL : ONE);

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
    const { name, required, folder, part, discards = false } = kind;
    return {
      name, required, folder, node: null,
      state: discards ? "fault" : open ? "recording" : "ended",
      reason: discards ? GONE : null,
      bytes_written: Math.floor(written * part),
      bytes_written_per_second: discards ? 0 : rate * part,
      queue: queue(name, open && !required && folder !== null ? 0.93 : 0, required ? 4_194_304 : 53_687_091),
      buffers: folder === null ? null : queue("write buffers", 0.25, 33_554_432),
      ledger: line(kind, total),
    };
  });
}
