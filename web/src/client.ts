// Requests to the API: the session's cookie, its CSRF header, and problems as errors.
import type { CommandRequest, CommandResult, Problem, Session } from "./api";

export const BASE = "/api/v1";
const TIMEOUT_MS = 5000;

/** What the server refused or could not do, in its own words. */
export class ApiError extends Error {
  constructor(readonly problem: Problem) {
    super(problem.detail ?? problem.title);
  }
  get status(): number {
    return this.problem.status;
  }
}

/** No answer came. */
export class NoAnswer extends Error {
  constructor() {
    super("No answer came from the node.");
  }
}

let csrf = "";
export function useSession(session: Session | null): void {
  csrf = session?.csrf ?? "";
}

async function send(method: string, path: string, body?: unknown): Promise<Response> {
  const headers: Record<string, string> = { accept: "application/json, application/problem+json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (method !== "GET") headers["x-catchment-csrf"] = csrf;
  let response: Response;
  try {
    response = await fetch(BASE + path, {
      method,
      headers,
      credentials: "same-origin",
      cache: "no-store",
      signal: AbortSignal.timeout(TIMEOUT_MS),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  } catch {
    throw new NoAnswer();
  }
  if (response.ok) return response;
  const plain: Problem = { title: response.statusText || "Error", status: response.status };
  const problem = await response.json().catch(() => plain) as Partial<Problem>;
  throw new ApiError({ ...plain, ...problem });
}

export async function call<T>(method: string, path: string, body?: unknown): Promise<T> {
  const response = await send(method, path, body);
  if (response.status === 204) return undefined as T;
  return await response.json() as T;
}

export const get = <T>(path: string): Promise<T> => call<T>("GET", path);

export async function text(path: string): Promise<string> {
  return await (await send("GET", path)).text();
}

/** A random UUID; crypto.randomUUID is missing where the page came over plain HTTP. */
export function uuid(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)]
    .join("-");
}

const TRIES = 3;

/** Sends a command. Where no answer comes it is sent again with the same request id, which the
 * server carries out once. */
export async function command(request: CommandRequest): Promise<CommandResult> {
  for (let tries = 1; ; tries += 1) {
    try {
      return await call<CommandResult>("POST", "/commands", request);
    } catch (error) {
      if (!(error instanceof NoAnswer) || tries === TRIES) throw error;
    }
  }
}

export const reason = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);
