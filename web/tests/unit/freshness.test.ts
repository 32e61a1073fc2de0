import { describe, expect, test } from "vitest";
import { Freshness, STALE_MS, backOff } from "../../src/freshness";

/** A page whose clock is an hour ahead of the server's. */
const AHEAD = 3_600_000;

function listening(): Freshness {
  const freshness = new Freshness();
  freshness.opened();
  for (let time = 0; time <= 10_000; time += 500) freshness.seen(time, time + AHEAD);
  return freshness;
}

describe("freshness", () => {
  test("nothing is fresh before the first event", () => {
    expect(new Freshness().stale(0)).toBe(true);
  });

  test("a difference of the clocks is no delay", () => {
    expect(listening().stale(10_000 + AHEAD + 600)).toBe(false);
  });

  test("silence is seen within three seconds, the page's timer included", () => {
    const freshness = listening();
    expect(freshness.stale(10_000 + AHEAD + STALE_MS + 1)).toBe(true);
    expect(STALE_MS + 250).toBeLessThan(3000);
  });

  test("a tab that wakes does not take what it slept through for the present", () => {
    const freshness = listening();
    const woken = 10_000 + AHEAD + 600_000;
    for (let time = 10_500; time <= 40_000; time += 500) freshness.seen(time, woken);
    expect(freshness.stale(woken)).toBe(true);
    freshness.seen(610_100, woken + 100);
    expect(freshness.stale(woken + 100)).toBe(false);
  });

  test("a node that says the same again and again is silent", () => {
    const freshness = listening();
    for (let time = 10_500; time <= 60_000; time += 500) {
      freshness.seen(10_000, time + AHEAD);
      expect(freshness.stale(time + AHEAD)).toBe(time > 10_000 + STALE_MS);
    }
  });

  test("a clock that is set makes no lasting veil", () => {
    const freshness = listening();
    const set = AHEAD + 60_000;
    for (let time = 10_500; time <= 18_000; time += 500) freshness.seen(time, time + set);
    expect(freshness.stale(18_000 + set)).toBe(false);
  });

  test("a clock that is set back keeps nothing fresh for longer", () => {
    const freshness = listening();
    expect(freshness.stale(5000 + AHEAD)).toBe(false);
    expect(freshness.stale(5000 + AHEAD + STALE_MS + 1)).toBe(true);
  });
});

test("tries come later and later, and not all pages at once", () => {
  expect([0, 1, 2, 3].map((tries) => backOff(tries, 0))).toEqual([500, 1000, 2000, 4000]);
  expect(backOff(50, 0)).toBe(10_000);
  expect(backOff(50, 1)).toBe(7500);
});
