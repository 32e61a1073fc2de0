// Histograms of whole numbers without a comb. The node's bins are equally wide and begin at the
// least value: some have one more of the values that can occur than others, or none at all.

import type { BeyondBin } from "./api";

export interface Bars {
  edges: number[];
  /** Per bin, or of each value that can occur in it. */
  heights: number[];
  total: number;
  each: "in a bin" | "of a value";
}

/** More values than these, and one more or less of them in a bin is not seen. */
const VALUES_MAX = 4000;

/** What values are multiples of: words of 8, 4 or 2 bytes, where nothing speaks against it. */
function grain(known: number[], fits: (step: number) => boolean): number {
  const found = [8, 4, 2].find((step) => known.every((value) => value % step === 0) && fits(step));
  return found ?? 1;
}

/** How many multiples of `step` fall into each bin, by the arithmetic of the node. */
function valuesPerBin(least: number, most: number, bins: number, step: number): number[] {
  const width = (most - least) / bins;
  const found = Array.from({ length: bins }, () => 0);
  for (let value = least; value <= most; value += step) {
    const bin = Math.min(Math.floor((value - least) / width), bins - 1);
    found[bin] = (found[bin] ?? 0) + 1;
  }
  return found;
}

/** A histogram of whole numbers as bars that do not depend on where bins end. `known`: some of the
 * values themselves. */
export function evened(edges: number[], counts: number[], known: number[]): Bars {
  const total = counts.reduce((sum, value) => sum + value, 0);
  const plain: Bars = { edges, heights: counts, total, each: "in a bin" };
  const least = edges[0] ?? 0;
  const most = Math.round(edges.at(-1) ?? 0);
  const whole = [least, most, ...known].every(Number.isInteger);
  if (!whole || most <= least || most - least > VALUES_MAX * 8) return plain;
  const per = (step: number) => valuesPerBin(least, most, counts.length, step);
  const fits = (step: number) =>
    per(step).every((values, bin) => values > 0 || (counts[bin] ?? 0) === 0);
  const step = grain([least, most, ...known], fits);
  if (!fits(step) || (most - least) / step > VALUES_MAX) return plain;
  const values = per(step);
  if (values.every((one) => one === values[0])) return plain;
  if (values.some((one) => one > 1)) {
    const heights = counts.map((value, bin) => value / Math.max(1, values[bin] ?? 1));
    return { ...plain, heights, each: "of a value" };
  }
  // Each bin has one value at most: a bar for each value.
  const heights = counts.filter((_, bin) => values[bin] === 1);
  const from = Array.from({ length: heights.length + 1 }, (_, bar) => least + (bar - 0.5) * step);
  return { edges: from, heights, total, each: "of a value" };
}

/** What is beyond a window as bars, each bin a quarter of the power of two below it. Edges are
 * signed logarithms, of which `placedNs` is the inverse. */
export function beyondBars(bins: BeyondBin[]): Bars {
  const place = (ns: number) => Math.sign(ns) * Math.log2(Math.abs(ns));
  const spans = bins.map(({ from_ns, count }) => {
    const near = Math.abs(from_ns);
    const far = near + Math.max(1, 2 ** (Math.floor(Math.log2(near)) - 2));
    const [from, to] = from_ns < 0 ? [-far, -near] : [near, far];
    return { from: place(from), to: place(to), count };
  });
  spans.sort((one, other) => one.from - other.from);
  const bars: Bars = { edges: [], heights: [], total: 0, each: "in a bin" };
  for (const { from, to, count } of spans) {
    const last = bars.edges.at(-1);
    if (last === undefined) bars.edges.push(from);
    else if (last < from) {
      bars.edges.push(from);
      bars.heights.push(0);
    }
    bars.edges.push(to);
    bars.heights.push(count);
    bars.total += count;
  }
  return bars;
}

export const placedNs = (edge: number): number => Math.sign(edge) * Math.round(2 ** Math.abs(edge));
