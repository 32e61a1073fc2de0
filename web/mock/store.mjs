// The mock's storage node: one stream that is sent, one that broke off, one that has ended; a
// folder that works and one that failed.

/** @import {Store, StoredFile, StoredFiles, StoredList, StoreStream} from "../src/api.ts" */

export const FAILED = "cannot sync /data/b/run-000317/run-000317-00004.catch: Input/output error (os error 5)";

/** @param {number} seconds @returns {Store} */
export function store(seconds) {
  const frames = Math.floor(seconds * 20);
  const rate = 131e6;
  /** @param {string} name @param {StoreStream["state"]} state @param {number} taken @param {number} speed @returns {StoreStream} */
  const stream = (name, state, taken, speed) => ({
    name, run: "6d1f0c526d1f0c526d1f0c526d1f0c52", stream: 0, variant: 0,
    recorder: "catchment 0.1.0 at 10.1.0.21:51774", state, reason: null,
    taken, durable: Math.max(0, taken - 3), bytes_written: taken * 6.5e6, bytes_written_per_second: speed,
    syncs: { count: taken, total_seconds: taken * 0.012, last_seconds: 0.011, longest_seconds: 0.24 },
  });
  return {
    address: "10.1.0.40:7100", tls: true, tokens: true,
    streams: [
      stream("run-000316", "ended", 4_211, 0), stream("run-000317", "broken_off", 977, 0),
      stream("run-000318", "open", frames + 100, rate),
    ],
    folders: [
      { path: "/data/a", free_bytes: 3.1e12, total_bytes: 8e12, bytes_written: 9.8e11, bytes_written_per_second: rate, failures: 0, fault: null },
      { path: "/data/b", free_bytes: 4.4e12, total_bytes: 8e12, bytes_written: 2.1e11, bytes_written_per_second: 0, failures: 1, fault: FAILED },
    ],
    frames: { taken: frames + 5_288, taken_bytes: (frames + 5_288) * 6.5e6, repeated: 4, corrupt: 1, unfit: 0, superseded: 0 },
    refusals: { token: 2, name_in_use: 1 }, connections_unopened: 7, faults: 0,
    waiting_bytes: 13e6, memory_bytes: 1 << 30,
  };
}

const RUNS = 57;

/** @param {number} back @returns {StoredFile[]} */
const files = (back) => Array.from({ length: back === 0 ? 61 : 8 }, (_, index) => ({
  name: `${name(back)}-${String(index).padStart(5, "0")}.catch`, folder: index % 2, stream: 0,
  bytes: 17e9, being_written: back === 0 && index === 60,
}));

/** @param {number} back */
const name = (back) => `run-${String(318 - back).padStart(6, "0")}`;

/** @param {number} limit @returns {StoredList} */
export const storedRuns = (limit) => ({
  runs: Array.from({ length: Math.min(limit, RUNS) }, (_, back) => ({
    name: name(back), files: files(back).length, bytes: files(back).length * 17e9, streams: [0],
    being_written: back === 0 ? 1 : 0,
  })),
  total: RUNS,
});

/** @param {string} run @returns {StoredFiles} */
export const storedFiles = (run) => ({ name: run, files: files(318 - Number(run.slice(4))) });
