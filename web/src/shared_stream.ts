// One stream of updates for all tabs of a browser, which has only so many connections to one
// address: without it the seventh tab would wait for ever. Each tab says when it wants it opened;
// what comes is passed on to all.
import { STREAM_EVENTS, type FromStream, type ToStream } from "./stream";

/** An open stream that says nothing for so long is opened anew when a tab asks. */
const SILENCE_MS = 4000;

const tabs = new Set<MessagePort>();
/** The newest of what is told whole, for tabs that come later. */
const newest = new Map<string, string>();
let source: EventSource | null = null;
let heardMs = 0;

function tell(message: FromStream): void {
  for (const tab of tabs) tab.postMessage(message);
}

function close(): void {
  source?.close();
  source = null;
  newest.clear();
}

function open(address: string): void {
  close();
  heardMs = Date.now();
  const opened = new EventSource(address);
  source = opened;
  opened.addEventListener("open", () => {
    heardMs = Date.now();
    tell({ event: "open", data: "" });
  });
  opened.addEventListener("error", () => {
    // Each tab asks again, in its own time.
    close();
    tell({ event: "error", data: "" });
  });
  for (const event of STREAM_EVENTS) {
    opened.addEventListener(event, ({ data }: MessageEvent<string>) => {
      heardMs = Date.now();
      // Lines of the log are each told once.
      if (event !== "log") newest.set(event, data);
      tell({ event, data });
    });
  }
}

function hear(tab: MessagePort, message: ToStream): void {
  if (message.kind === "leave") {
    tabs.delete(tab);
    if (tabs.size === 0) close();
    return;
  }
  tabs.add(tab);
  if (source === null || Date.now() - heardMs > SILENCE_MS) {
    open(message.address);
  } else if (source.readyState === EventSource.OPEN) {
    const known: FromStream[] = [...newest].map(([event, data]) => ({ event, data }));
    for (const one of [{ event: "open", data: "" }, ...known]) tab.postMessage(one);
  }
}

addEventListener("connect", (event) => {
  const [tab] = (event as MessageEvent).ports;
  if (!tab) return;
  tab.onmessage = ({ data }: MessageEvent<ToStream>) => hear(tab, data);
});
