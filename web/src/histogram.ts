// Histograms of whole numbers without a comb. The node's bins are equally wide and begin at the
// least value: some have one more of the values that can occur than others, or none at all.

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
