// The stream of updates, shared with the other tabs where the browser can, and this tab's own
// otherwise.

/** What the node tells. */
export const STREAM_EVENTS = ["state", "sources", "log", "alarm"] as const;

/** `open`, `error`, or one of what the node tells. */
export interface FromStream { event: string; data: string }
export type ToStream = { kind: "open"; address: string } | { kind: "leave" };
type Listener = (message: FromStream) => void;

let worker: SharedWorker | null = null;

/** Opens it; what it returns closes it. */
export function openStream(address: string, listener: Listener): () => void {
  return typeof SharedWorker === "undefined" ? openOwn(address, listener) : openShared(address, listener);
}

function openShared(address: string, listener: Listener): () => void {
  worker ??= new SharedWorker(new URL("./shared_stream.ts", import.meta.url), { type: "module" });
  const { port } = worker;
  const say = (message: ToStream) => port.postMessage(message);
  const leave = () => say({ kind: "leave" });
  port.onmessage = ({ data }: MessageEvent<FromStream>) => listener(data);
  // A tab that is closed, or put aside by the browser, is told nothing more.
  addEventListener("pagehide", leave);
  say({ kind: "open", address });
  return () => {
    removeEventListener("pagehide", leave);
    port.onmessage = null;
    leave();
  };
}

function openOwn(address: string, listener: Listener): () => void {
  const source = new EventSource(address);
  for (const event of ["open", "error", ...STREAM_EVENTS]) {
    source.addEventListener(event, (told) => {
      listener({ event, data: told instanceof MessageEvent ? String(told.data) : "" });
    });
  }
  return () => source.close();
}
