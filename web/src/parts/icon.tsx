// Signs whose shape alone tells what they mean: colour only repeats it.
import type { JSX } from "preact";
import type { Level, Severity, SourceStatus } from "../api";

type Name =
  | "check" | "warning" | "stop" | "silent" | "never" | "info" | "close" | "search"
  | "bottleneck" | "dark" | "light" | "system";

const SHAPES: Record<Name, JSX.Element> = {
  check: <><circle cx="16" cy="16" r="14" /><path class="cut" d="M8.5 16.500l5 5L24 11" /></>,
  warning: <><path d="M16 2L31 29.500H1z" /><path class="cut" d="M16 12v6.500M16 24.200v.1" /></>,
  stop: <><path d="M10.200 2h11.600L30 10.200v11.600L21.800 30H10.200L2 21.800V10.200z" /><path class="cut" d="M11 11l10 10M21 11L11 21" /></>,
  silent: <><circle class="line" cx="16" cy="16" r="12.500" /><path class="line" d="M7.200 7.200l17.600 17.600" /></>,
  never: <circle class="line dashed" cx="16" cy="16" r="12.500" />,
  info: <><circle cx="16" cy="16" r="14" /><path class="cut" d="M16 15v8M16 8.900v.1" /></>,
  close: <path class="line" d="M7 7l18 18M25 7L7 25" />,
  search: <><circle class="line" cx="13.500" cy="13.500" r="8.500" /><path class="line" d="M20 20l8 8" /></>,
  bottleneck: <path class="line" d="M3 5c10 0 10 8 13 8s3-8 13-8M3 27c10 0 10-8 13-8s3 8 13 8" />,
  dark: <path d="M20 3a13 13 0 1 0 9 18A11 11 0 0 1 20 3z" />,
  light: <><circle cx="16" cy="16" r="6.500" /><path class="line" d="M16 2v4M16 26v4M2 16h4M26 16h4M6 6l3 3M23 23l3 3M26 6l-3 3M9 23l-3 3" /></>,
  system: <><circle class="line" cx="16" cy="16" r="12" /><path d="M16 4a12 12 0 0 1 0 24z" /></>,
};

/** Always beside a word, so it says nothing to a screen reader. */
export function Icon({ name }: { name: Name }) {
  return <svg class="icon" viewBox="0 0 32 32" aria-hidden="true" focusable="false">{SHAPES[name]}</svg>;
}

export const LEVEL_ICONS: Record<Level, Name> = {
  good: "check", held: "warning", bad_data: "warning", loss: "warning", heavy_bad_data: "stop", heavy_loss: "stop",
  not_recording: "stop",
};
export const STATUS_ICONS: Record<SourceStatus, Name> = {
  good: "check", bad_data: "warning", loss: "warning", out_of_step: "warning", silent: "silent", never: "never",
  off: "never",
};
export const SEVERITY_ICONS: Record<Severity, Name> = { critical: "stop", warning: "warning", info: "info" };
