// Who looks at the page.
import type { Session } from "./api";
import { ApiError, call, get, useSession } from "./client";
import { connect, disconnect, tryNow } from "./live";
import { alarms, logLines, session, sources, state } from "./store";

function enter(known: Session): void {
  useSession(known);
  session.value = known;
  connect();
}

export async function resume(): Promise<void> {
  try {
    enter(await get<Session>("/session"));
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) session.value = null;
    else tryNow();
  }
}

export async function signIn(token: string): Promise<void> {
  enter(await call<Session>("POST", "/session", { token }));
}

export async function signOut(): Promise<void> {
  await call<unknown>("DELETE", "/session");
  disconnect();
  useSession(null);
  session.value = null;
  state.value = null;
  sources.value = [];
  alarms.value = [];
  logLines.value = [];
}
