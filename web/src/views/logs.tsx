// What the node wrote to its log, newest first.
import { signal } from "@preact/signals";
import type { LogLevel, LogLine } from "../api";
import * as format from "../format";
import { Icon } from "../parts/icon";
import { logLines, nowMs } from "../store";

const LEVELS: LogLevel[] = ["error", "warn", "info", "debug", "trace"];
const LINES_MAX = 500;

const level = signal<LogLevel>("info");
const search = signal("");

/** Identities and paths say little to whoever reads the log. */
const ASIDE = /^(\/.*|[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12})$/i;
const isAside = (value: string): boolean => ASIDE.test(value);

function fields(line: LogLine, which: (value: string) => boolean = () => true): string {
  const chosen = Object.entries(line.fields).filter(([, value]) => which(format.plain(value)));
  return chosen.map(([name, value]) => `${name}=${format.plain(value)}`).join("  ");
}

/** What the line says; the part of the program and what is aside can be unfolded. */
function Said({ line }: { line: LogLine }) {
  return (
    <td class="said">
      {line.message} <span class="note">{fields(line, (value) => !isAside(value))}</span>
      <details class="note">
        <summary aria-label="More of this line">…</summary>
        <span>{line.target} {fields(line, isAside)}</span>
      </details>
    </td>
  );
}

function matches(line: LogLine, words: string[]): boolean {
  const text = `${line.target} ${line.message} ${fields(line)}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

export function LogsView() {
  const words = search.value.toLowerCase().split(/\s+/).filter((word) => word !== "");
  const most = LEVELS.indexOf(level.value);
  const found = logLines.value.filter((line) => LEVELS.indexOf(line.level) <= most && matches(line, words));
  const shown = found.slice(-LINES_MAX).reverse();
  return (
    <section class="panel" aria-labelledby="logs-title">
      <div class="panel-head">
        <h2 id="logs-title">
          Log <span class="note">{format.many(found.length, "line")}, newest first; times in UTC</span>
        </h2>
        <div class="filters">
          <label>From level{" "}
            <select value={level.value} onChange={(event) => { level.value = event.currentTarget.value as LogLevel; }}>
              {LEVELS.map((name) => <option key={name} value={name}>{name}</option>)}
            </select>
          </label>
          <label>Search{" "}
            <input type="search" value={search.value} onInput={(event) => { search.value = event.currentTarget.value; }} />
          </label>
        </div>
      </div>
      <div class="table-place free" tabIndex={0} role="region" aria-label="Log">
        <table class="logs">
          <thead>
            <tr><th scope="col">Time</th><th scope="col">Level</th><th scope="col">What</th></tr>
          </thead>
          <tbody>
            {shown.map((line) => (
              <tr key={line.number} class={`log-${line.level}`}>
                <td class="figure">{format.utcMillisSince(line.time, nowMs.value)}</td>
                <td class="level">
                  {line.level === "error" ? <Icon name="stop" /> : line.level === "warn" ? <Icon name="warning" /> : null}
                  {line.level}
                </td>
                <Said line={line} />
              </tr>
            ))}
          </tbody>
        </table>
        {shown.length === 0 ? <p class="note empty">No line.</p> : null}
      </div>
      {found.length > LINES_MAX ? <p class="note">and {format.count(found.length - LINES_MAX)} older ones</p> : null}
    </section>
  );
}
