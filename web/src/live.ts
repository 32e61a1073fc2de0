// The stream of updates: opens it, watches it, opens it again. A connection that is open and silent
// is as bad as none, and is given up too.
import { batch } from "@preact/signals";
import type { Alarm, LogLine, Session, SourceState, State } from "./api";
import { ApiError, BASE, get, useSession } from "./client";
import { Freshness, backOff } from "./freshness";
import { merged } from "./order";
import { openStream } from "./stream";
import {
  alarms, connection, freshMs, logLines, sources, nowMs, session, stale, state,
} from "./store";

const TICK_MS = 250;
/** An open stream that says nothing for so long is opened anew. */
const SILENCE_MS = 5000;
const LOG_LINES_MAX = 2000;

const freshness = new Freshness();
let closeStream: (() => void) | null = null;
let heardMs = 0;
let tries = 0;
let retry: ReturnType<typeof setTimeout> | undefined;

export function connect(): void {
  disconnect();
  heardMs = Date.now();
  closeStream = openStream(`${BASE}/stream`, ({ event, data }) => {
    if (event === "open") {
      freshness.opened();
      void catchUp();
    } else if (event === "error") {
      lost();
    } else {
      heardMs = Date.now();
      batch(() => hear(event, JSON.parse(data)));
    }
  });
}

function hear(event: string, told: unknown): void {
  if (event === "state") {
    const next = told as State;
    tries = 0;
    connection.value = { kind: "open" };
    freshness.seen(Date.parse(next.time), Date.now());
    state.value = next;
    tick();
  } else if (event === "sources") {
    sources.value = (told as { sources: SourceState[] }).sources;
  } else if (event === "log") {
    addLogs([told as LogLine]);
  } else if (event === "alarm") {
    alarms.value = (told as { alarms: Alarm[] }).alarms;
  }
}

export function disconnect(): void {
  clearTimeout(retry);
  closeStream?.();
  closeStream = null;
}

/** What happened while the page was not listening. */
async function catchUp(): Promise<void> {
  const [, lines] = await Promise.allSettled([
    fetchAlarms(),
    get<{ lines: LogLine[] }>("/logs?limit=500"),
  ]);
  if (lines.status === "fulfilled") {
    addLogs(lines.value.lines);
  }
}

export async function fetchAlarms(): Promise<void> {
  alarms.value = (await get<{ alarms: Alarm[] }>("/alarms")).alarms;
}

function addLogs(lines: LogLine[]): void {
  logLines.value = merged(logLines.value, lines, LOG_LINES_MAX);
}

function lost(): void {
  disconnect();
  const wait = backOff(tries, Math.random());
  tries += 1;
  connection.value = { kind: "lost", tries, nextMs: Date.now() + wait };
  retry = setTimeout(() => void again(), wait);
}

/** EventSource hides why it failed; a plain request tells a revoked session from a lost node. */
async function again(): Promise<void> {
  try {
    const known = await get<Session>("/session");
    useSession(known);
    session.value = known;
    connect();
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) session.value = null;
    else lost();
  }
}

export function tryNow(): void {
  tries = 0;
  clearTimeout(retry);
  void again();
}

function tick(): void {
  const now = Date.now();
  batch(() => {
    nowMs.value = now;
    stale.value = freshness.stale(now);
    const age = freshness.age(now);
    freshMs.value = age === null ? null : now - age;
  });
  if (closeStream && now - heardMs > SILENCE_MS) lost();
}

export function watchClock(): void {
  setInterval(tick, TICK_MS);
  // Timers of a sleeping tab do not run; the moment it is looked at must not show the past as now.
  document.addEventListener("visibilitychange", tick);
  addEventListener("pageshow", tick);
  addEventListener("focus", tick);
  addEventListener("offline", tick);
}
