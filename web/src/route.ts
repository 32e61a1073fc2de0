// Where the page is, in the part of the address behind #, so that one file serves all of it.
import { signal } from "@preact/signals";

export const VIEWS = ["overview", "sources", "runs", "alarms", "logs", "devices"] as const;
export type View = (typeof VIEWS)[number];
export interface Route { view: View; item: string | null }

export function parse(hash: string): Route {
  const [view = "", item = ""] = hash.replace(/^#\/?/, "").split("/");
  const known = VIEWS.find((name) => name === view) ?? "overview";
  let decoded: string | null = null;
  try {
    decoded = item === "" ? null : decodeURIComponent(item);
  } catch {
    // Somebody typed a broken address: no item.
  }
  return { view: known, item: decoded };
}

export const link = (view: View, item?: string | number): string =>
  `#/${view}${item === undefined ? "" : `/${encodeURIComponent(item)}`}`;

export const route = signal<Route>(parse(location.hash));

export function watchRoute(): void {
  addEventListener("hashchange", () => { route.value = parse(location.hash); });
}

export function go(view: View, item?: string | number): void {
  location.hash = link(view, item);
}
