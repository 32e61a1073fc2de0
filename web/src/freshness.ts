// Whether what the page shows is true now. Nothing here trusts that timers run or that events come
// when they were sent: a tab may have been asleep, and a socket may deliver what is long past.

/** Older than this is stale: the veil must be up within 3 s of silence, timers included. */
export const STALE_MS = 2600;
/** A lag that lasts so long is no delay but a clock that was set. */
const CLOCK_SET_MS = 5000;
/** How fast the smallest lag seen is forgotten, per event: more than clocks drift. */
const DRIFT_MS = 1;

export class Freshness {
  /** The page's clock less the server's, at best; unknown before the first event. */
  private base: number | null = null;
  private lateSince: number | null = null;
  private fresh: number | null = null;
  /** When the server made what came last. */
  private made: number | null = null;

  /** A connection was opened: what was known of the server's clock is no longer of use. */
  opened(): void {
    this.base = null;
    this.lateSince = null;
  }

  /** An event that the server made at `serverMs` came at `pageMs`. */
  seen(serverMs: number, pageMs: number): void {
    // The same again: a server that answers for a node that does not says nothing new.
    if (serverMs === this.made) return;
    this.made = serverMs;
    const offset = pageMs - serverMs;
    this.base = this.base === null ? offset : Math.min(offset, this.base + DRIFT_MS);
    if (offset - this.base <= STALE_MS) {
      this.fresh = pageMs;
      this.lateSince = null;
      return;
    }
    // Made long before it came: the past, or somebody has set a clock.
    this.lateSince ??= pageMs;
    if (pageMs - this.lateSince > CLOCK_SET_MS) {
      this.base = offset;
      this.fresh = pageMs;
      this.lateSince = null;
    }
  }

  /** How old what is shown is; null before anything was shown. */
  age(pageMs: number): number | null {
    // A clock that was set back makes nothing fresh for longer than it was.
    if (this.fresh !== null && pageMs < this.fresh) this.fresh = pageMs;
    return this.fresh === null ? null : pageMs - this.fresh;
  }

  stale(pageMs: number): boolean {
    const age = this.age(pageMs);
    return age === null || age > STALE_MS;
  }
}

const BACK_OFF_MS_MAX = 10_000;

/** How long to wait before the next try: 0.5 s, 1 s, 2 s … 10 s, and up to a quarter less, so that
 * a control room's pages do not all come back at once. `random` is from 0 to 1. */
export function backOff(tries: number, random: number): number {
  const full = Math.min(500 * 2 ** Math.max(0, tries), BACK_OFF_MS_MAX);
  return Math.round(full * (1 - random / 4));
}
