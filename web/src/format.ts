// Every number that the page shows goes through here, so that equal things look alike
// everywhere and none is without its unit. What is not known is a dash, never a zero.

export const UNKNOWN = "–";
const SPACE = "\u00a0";
const NANOSECONDS = ["ns", "µs", "ms", "s"];
const PREFIXES = ["", "k", "M", "G", "T", "P", "E"];

/** A number and its unit, apart, so that a tile can set them in two sizes. */
export interface Quantity { value: string; unit: string }

type Maybe = number | null | undefined;

function known(value: Maybe): value is number {
  return value !== null && value !== undefined && Number.isFinite(value);
}

/** Three significant digits and an SI prefix: 4.01 kHz, 128 MB/s. Zero is plain 0. */
export function si(value: Maybe, unit: string): Quantity {
  if (!known(value)) return { value: UNKNOWN, unit };
  let size = Math.abs(value);
  let prefix = 0;
  // 999.5 would be rounded to 1,000 of the smaller unit.
  while (size >= 999.5 && prefix < PREFIXES.length - 1) {
    size /= 1000;
    prefix += 1;
  }
  const digits = size === 0 ? 0 : size < 9.995 ? 2 : size < 99.95 ? 1 : 0;
  // Below a thousandth only "some, but next to none" is of use.
  if (size > 0 && size < 0.005) return { value: value < 0 ? "−0.01" : "< 0.01", unit };
  const text = size.toFixed(digits);
  return { value: value < 0 ? `−${text}` : text, unit: `${PREFIXES[prefix]}${unit}` };
}

export function join(quantity: Quantity): string {
  if (quantity.unit === "") return quantity.value;
  return `${quantity.value}${SPACE}${quantity.unit}`;
}

export const bytes = (value: Maybe): Quantity => si(value, "B");
export const bytesPerSecond = (value: Maybe): Quantity => si(value, "B/s");
export const perSecond = (value: Maybe): Quantity => si(value, "/s");

/** A whole number with all its digits: 12,345,678. */
export function count(value: Maybe): string {
  if (!known(value)) return UNKNOWN;
  return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

/** As `count`, and in short where a tile has no place for all digits: 2.42 G. */
export function shortCount(value: Maybe): Quantity {
  return known(value) && Math.abs(value) >= 1e9 ? si(value, "") : { value: count(value), unit: "" };
}

/** "1 source", "2 sources". */
export function many(value: number, one: string, more = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : more}`;
}

/** A share of one as per cent; what is not nothing never reads as nothing. */
export function share(value: Maybe): Quantity {
  const unit = "%";
  if (!known(value)) return { value: UNKNOWN, unit };
  const percent = value * 100;
  if (percent === 0) return { value: "0", unit };
  if (percent < 0.0001) return { value: "< 0.0001", unit };
  if (percent > 99.95 && percent < 100) return { value: "> 99.9", unit };
  if (percent < 0.1) return { value: percent.toPrecision(2).replace(/0+$/, ""), unit };
  return { value: percent.toFixed(percent < 10 ? 2 : 1), unit };
}

/** A share of one as whole per cent, for fill levels. */
export function wholePercent(value: Maybe): string {
  return known(value) ? `${Math.round(value * 100)}${SPACE}%` : UNKNOWN;
}

/** Time that runs, where there is little place: 00:17:09, and with days 2 d 00:17. */
export function shortClock(seconds: Maybe): string {
  const whole = clock(seconds);
  return whole.includes("d") ? whole.slice(0, -3) : whole;
}

/** Time that runs: 00:17:09, and with days 2 d 00:17:09. */
export function clock(seconds: Maybe): string {
  if (!known(seconds) || seconds < 0) return UNKNOWN;
  const whole = Math.floor(seconds);
  const two = (value: number) => String(value).padStart(2, "0");
  const days = Math.floor(whole / 86_400);
  const hms = [Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60, whole % 60];
  return `${days > 0 ? `${days}${SPACE}d ` : ""}${hms.map(two).join(":")}`;
}

/** A span of time in its largest fitting unit. */
export function duration(seconds: Maybe): Quantity {
  if (!known(seconds) || seconds < 0) return { value: UNKNOWN, unit: "s" };
  if (seconds < 10) return { value: seconds.toFixed(1), unit: "s" };
  if (seconds < 120) return { value: Math.floor(seconds).toString(), unit: "s" };
  if (seconds < 7200) return { value: Math.floor(seconds / 60).toString(), unit: "min" };
  if (seconds < 172_800) return { value: (Math.floor(seconds / 360) / 10).toFixed(1), unit: "h" };
  return { value: (Math.floor(seconds / 8640) / 10).toFixed(1), unit: "d" };
}

/** Nanoseconds, in the unit in which they are short: 50 ns, 3.10 µs. */
export function nanoseconds(ns: Maybe): Quantity {
  if (!known(ns)) return { value: UNKNOWN, unit: "ns" };
  let size = Math.abs(ns);
  let unit = 0;
  while (size >= 1000 && unit < NANOSECONDS.length - 1) {
    size /= 1000;
    unit += 1;
  }
  const digits = size < 10 ? 2 : size < 100 ? 1 : 0;
  const text = unit === 0 ? Math.round(size).toString() : size.toFixed(digits);
  return { value: ns < 0 && text !== "0" ? `−${text}` : text, unit: NANOSECONDS[unit] ?? "s" };
}

/** How fast a clock drifts, with its sign: +3.20 ppm. */
export function ppm(value: Maybe): Quantity {
  if (!known(value)) return { value: UNKNOWN, unit: "ppm" };
  const size = Math.abs(value);
  const digits = size === 0 ? 0 : Math.min(Math.max(2 - Math.floor(Math.log10(size)), 0), 4);
  return { value: `${value < 0 ? "−" : "+"}${size.toFixed(digits)}`, unit: "ppm" };
}

/** Hours as the disk's: rounded down, since an hour too few hurts nobody. */
export function hoursLeft(hours: Maybe): Quantity {
  if (!known(hours)) return { value: UNKNOWN, unit: "h" };
  return hours > 24 * 365 ? { value: "> 1", unit: "year" } : duration(hours * 3600);
}

/** "2026-11-21 03:16:16", in UTC; the column or label beside it says so. */
export function utc(time: string | number | null): string {
  if (time === null) return UNKNOWN;
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? UNKNOWN : date.toISOString().slice(0, 19).replace("T", " ");
}

/** "03:16:16", in UTC. */
export const utcClock = (time: string | number | null): string => utc(time).slice(11) || UNKNOWN;
/** "03:16:16", with its date if that is not the one of `now`; in UTC. */
export function utcSince(time: string | number | null, now: string | number): string {
  const whole = utc(time);
  return whole.slice(0, 10) === utc(now).slice(0, 10) ? whole.slice(11) : whole;
}
export const utcMillis = (time: string): string => {
  const date = new Date(time);
  return Number.isNaN(date.getTime()) ? UNKNOWN : date.toISOString().slice(11, 23);
};

/** "03:16:16.250", with its date if that is not the one of `now`; in UTC. */
export function utcMillisSince(time: string, now: string | number): string {
  const day = utc(time).slice(0, 10);
  return day === utc(now).slice(0, 10) ? utcMillis(time) : `${day} ${utcMillis(time)}`;
}

/** Ticks of a time axis in UTC, seconds since 1970, `step` apart: the day stands below the first
 * one of each day that begins on the axis. */
export function timeTicks(ticks: number[], step: number): string[] {
  return ticks.map((tick, index) => {
    const whole = utc(tick * 1000);
    const time = whole.slice(11, step < 60 ? 19 : 16);
    const before = ticks[index - 1];
    const day = whole.slice(0, 10);
    const begins = before === undefined
      ? tick % 86_400 === 0 : utc(before * 1000).slice(0, 10) !== day;
    return begins ? `${time}\n${day}` : time;
  });
}

/** A value whose unit is not known to the page: a property, an alarm's threshold. */
export function plain(value: unknown): string {
  if (value === null || value === undefined) return UNKNOWN;
  if (typeof value === "number") {
    if (!Number.isFinite(value)) return UNKNOWN;
    return Number.isInteger(value) ? count(Math.abs(value)).replace(/^/, value < 0 ? "−" : "")
      : String(Number(value.toPrecision(4)));
  }
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
