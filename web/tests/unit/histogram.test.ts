import { expect, test } from "vitest";
import { beyondBars, evened, placedNs } from "../../src/histogram";

const BINS = 50;

/** As the node makes it. */
function histogram(values: number[]): [number[], number[]] {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const width = most > least ? (most - least) / BINS : 1;
  const edges = Array.from({ length: BINS + 1 }, (_, bin) => least + width * bin);
  const counts = Array.from({ length: BINS }, () => 0);
  for (const value of values) {
    const bin = Math.min(Math.floor((value - least) / width), BINS - 1);
    counts[bin] = (counts[bin] ?? 0) + 1;
  }
  return [edges, counts];
}

/** Each multiple of `step`, equally often. */
const flat = (from: number, to: number, step: number, times = 3): number[] =>
  Array.from({ length: ((to - from) / step + 1) * times }, (_, index) =>
    from + step * Math.floor(index / times));

test.each([
  [0, 20, 1], [7, 82, 1], [100, 199, 1], [0, 333, 1], [40, 1240, 4], [16, 120, 4], [8, 640, 8],
  [2, 300, 2], [-30, 45, 1],
])("equally many of each from %d to %d in steps of %d are equally high", (from, to, step) => {
  const values = flat(from, to, step);
  const { heights, total } = evened(...histogram(values), values.slice(0, 5));
  expect(total).toBe(values.length);
  expect(Math.max(...heights)).toBeCloseTo(Math.min(...heights), 9);
});

test("narrow bins become one bar for each value, which stands in its middle", () => {
  const { edges, heights, each } = evened(...histogram([3, 3, 5, 6, 6, 6, 23]), [3]);
  expect(heights).toEqual([2, 0, 1, 3, ...Array.from({ length: 16 }, () => 0), 1]);
  expect(edges.slice(0, 3)).toEqual([2.5, 3.5, 4.5]);
  expect(edges).toHaveLength(heights.length + 1);
  expect(each).toBe("of a value");
});

test("what is not of whole numbers, or of one value only, stays as it is", () => {
  const [edges, counts] = histogram([0, 0.3, 0.31, 0.7, 9]);
  expect(evened(edges, counts, [0.3])).toMatchObject({ edges, heights: counts, each: "in a bin" });
  // Nothing told but the bins: there is something where no whole number is.
  expect(evened(edges, counts, [])).toMatchObject({ edges, heights: counts });
  const [single, ones] = histogram([64, 64]);
  expect(evened(single, ones, [64]).heights[0]).toBe(2);
  expect(evened([], [], [])).toMatchObject({ heights: [], total: 0 });
});

test("what is beyond a window lies on both sides of it, by its logarithm, with gaps between", () => {
  const bins = [{ from_ns: -1024, count: 2 }, { from_ns: 3, count: 4 }, { from_ns: 5, count: 1 }, { from_ns: 4, count: 7 }];
  const { edges, heights, total } = beyondBars(bins);
  expect(edges.map(placedNs)).toEqual([-1280, -1024, 3, 4, 5, 6]);
  expect(heights).toEqual([2, 0, 4, 7, 1]);
  expect(total).toBe(14);
  expect(beyondBars([]).edges).toEqual([]);
});
