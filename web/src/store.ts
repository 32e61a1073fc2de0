// What the page knows, as signals. Only live.ts and session.ts write most of them.
import { computed, signal } from "@preact/signals";
import type { Alarm, LogLine, Session, SourceState, State } from "./api";

export const session = signal<Session | null | "unknown">("unknown");
export const state = signal<State | null>(null);
export const sources = signal<SourceState[]>([]);
export const alarms = signal<Alarm[]>([]);
/** Newest last; bounded. */
export const logLines = signal<LogLine[]>([]);

export type Connection =
  | { kind: "waiting" }
  | { kind: "open" }
  | { kind: "lost"; tries: number; nextMs: number };
export const connection = signal<Connection>({ kind: "waiting" });
/** The page's clock, four times a second. */
export const nowMs = signal(Date.now());
export const stale = signal(true);
/** When what is shown was true, by the page's clock. */
export const freshMs = signal<number | null>(null);

/** What was just done or refused. A refusal stays until somebody closes it or a new one comes. */
export interface Notice { kind: "done" | "failed" | "waiting"; text: string }
export const notice = signal<Notice | null>(null);

export const mayOperate = computed(() => {
  const who = session.value;
  return who !== null && who !== "unknown" && who.role !== "viewer";
});

/** A node of channels alone has no events, but slices and frames. */
export const linksOnly = computed(() =>
  sources.value.length > 0 && sources.value.every((source) => source.kind === "channels"));

/** The run that the sources' ledgers are of: without one they keep the last one's. */
export const whichRun = (): string => state.value?.run ? "this run" : "the last run";

/** Alarms that are not over and seen. */
export const openAlarms = computed(() =>
  alarms.value.filter((alarm) => alarm.state !== "cleared"));
