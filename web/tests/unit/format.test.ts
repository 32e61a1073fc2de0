import { describe, expect, test } from "vitest";
import * as format from "../../src/format";

describe("quantities", () => {
  test.each([
    [0, "0", "B/s"], [1, "1.00", "B/s"], [999.4, "999", "B/s"], [999.6, "1.00", "kB/s"],
    [4007, "4.01", "kB/s"], [128_000_000, "128", "MB/s"], [9.995, "10.0", "B/s"], [-2500, "−2.50", "kB/s"],
    [0.004, "< 0.01", "B/s"],
  ])("%d is three digits and a prefix", (value, digits, unit) => {
    expect(format.bytesPerSecond(value)).toEqual({ value: digits, unit });
  });

  test("what is not known is a dash, not a zero", () => {
    expect(format.perSecond(null).value).toBe(format.UNKNOWN);
    expect(format.perSecond(Number.NaN).value).toBe(format.UNKNOWN);
    expect(format.count(undefined)).toBe(format.UNKNOWN);
    expect(format.hoursLeft(null).value).toBe(format.UNKNOWN);
  });

  test("counts keep every digit", () => {
    expect(format.count(12_345_678)).toBe("12,345,678");
    expect(format.count(999)).toBe("999");
  });

  test("a share that is not nothing never reads as nothing, nor one that is not all as all", () => {
    expect(format.join(format.share(0))).toBe("0\u00a0%");
    expect(format.share(1e-9).value).toBe("< 0.0001");
    expect(format.share(0.000012).value).toBe("0.0012");
    expect(format.share(0.99999).value).toBe("> 99.9");
    expect(format.share(1).value).toBe("100.0");
  });

  test("what is left is rounded down", () => {
    expect(format.hoursLeft(0.999)).toEqual({ value: "59", unit: "min" });
    expect(format.hoursLeft(14.19)).toEqual({ value: "14.1", unit: "h" });
    expect(format.hoursLeft(49)).toEqual({ value: "2.0", unit: "d" });
  });

  test("time runs past midnight", () => {
    expect(format.clock(3661)).toBe("01:01:01");
    expect(format.clock(90_061)).toBe("1\u00a0d 01:01:01");
    expect(format.clock(-1)).toBe(format.UNKNOWN);
    expect(format.shortClock(3661)).toBe("01:01:01");
    expect(format.shortClock(653_434)).toBe("7\u00a0d 13:30");
    expect(format.shortClock(null)).toBe(format.UNKNOWN);
    expect(format.join(format.shortCount(999_999_999))).toBe("999,999,999");
    expect(format.join(format.shortCount(2_418_723_456))).toBe("2.42\u00a0G");
    const now = Date.parse("2026-11-22T20:00:00Z");
    expect(format.utcSince("2026-11-22T03:16:16.25Z", now)).toBe("03:16:16");
    expect(format.utcSince("2026-11-15T03:16:16.25Z", now)).toBe("2026-11-15 03:16:16");
    expect(format.utcMillisSince("2026-11-22T03:16:16.25Z", now)).toBe("03:16:16.250");
    expect(format.utcMillisSince("2026-11-15T03:16:16.25Z", now)).toBe("2026-11-15 03:16:16.250");
  });

  test("times are in UTC, whatever the computer's zone", () => {
    expect(format.utc("2026-11-21T03:16:16.250+02:00")).toBe("2026-11-21 01:16:16");
    expect(format.utc("nonsense")).toBe(format.UNKNOWN);
  });
});

test("the day stands below the first tick of each day that begins on the axis", () => {
  const noon = Date.parse("2026-11-20T12:00:00Z") / 1000;
  const ticks = [0, 6, 12, 18].map((hours) => noon + hours * 3600);
  expect(format.timeTicks(ticks, 21_600)).toEqual(["12:00", "18:00", "00:00\n2026-11-21", "06:00"]);
  const odd = [noon + 11 * 3600, noon + 13 * 3600];
  expect(format.timeTicks(odd, 7200)).toEqual(["23:00", "01:00\n2026-11-21"]);
  expect(format.timeTicks([noon + 12 * 3600], 3600)).toEqual(["00:00\n2026-11-21"]);
  expect(format.timeTicks([noon, noon + 10], 10)).toEqual(["12:00:00", "12:00:10"]);
});

test("nanoseconds have the unit in which they are short", () => {
  const shown = (ns: number | null) => {
    const { value, unit } = format.nanoseconds(ns);
    return `${value} ${unit}`;
  };
  expect([0, 50, -50, 999, 3100, -47_000, 250_000_000, 1e10, null].map(shown)).toEqual([
    "0 ns", "50 ns", "−50 ns", "999 ns", "3.10 µs", "−47.0 µs", "250 ms", "10.0 s",
    `${format.UNKNOWN} ns`,
  ]);
});
