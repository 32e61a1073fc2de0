// Rates over the last ten minutes, hour or day, from the recorder's own counters. Gaps are times of
// which nothing is known.
import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { History, SeriesName } from "../api";
import { get } from "../client";
import * as format from "../format";
import { linksOnly } from "../store";
import { shown } from "../theme";

const RANGES = [
  { label: "10 min", seconds: 600, refreshMs: 2000 },
  { label: "1 h", seconds: 3600, refreshMs: 12_000 },
  { label: "24 h", seconds: 86_400, refreshMs: 60_000 },
];
const POINTS = 300;
const HEIGHT = 164;

interface Curve { name: SeriesName; label: string; colour: string }
interface Plot {
  title: string;
  unit: (value: number | null) => format.Quantity;
  curves: Curve[];
}
const PLOTS: Plot[] = [
  { title: "Event rate", unit: format.perSecond,
    curves: [{ name: "events_per_second", label: "events", colour: "--curve-1" }] },
  { title: "Data rate", unit: format.bytesPerSecond,
    curves: [
      { name: "bytes_per_second", label: "in", colour: "--curve-1" },
      { name: "bytes_written_per_second", label: "to disk (dashed)", colour: "--curve-2" },
    ] },
  { title: "Loss", unit: format.perSecond,
    curves: [{ name: "loss_per_second", label: "lost", colour: "--loss-tone" }] },
];

/** What a node of channels alone builds. */
const SLICES: Plot = {
  title: "Slice rate", unit: format.perSecond,
  curves: [{ name: "events_per_second", label: "slices", colour: "--curve-1" }],
};

const range = signal(0);
const past = signal<History | null>(null);
const failed = signal<string | null>(null);
/** The point under the pointer, in all plots. */
const pointed = signal<number | null>(null);

async function refresh(): Promise<void> {
  const chosen = RANGES[range.peek()] ?? RANGES[0];
  if (!chosen || document.hidden) return;
  try {
    past.value = await get<History>(`/history?seconds=${chosen.seconds}&points=${POINTS}`);
    failed.value = null;
  } catch (error) {
    failed.value = error instanceof Error ? error.message : String(error);
  }
}

const colour = (name: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Points with nothing beside them: a curve alone would not show them. */
export function alone(values: (number | null | undefined)[]): number[] {
  const there = (index: number) => (values[index] ?? null) !== null;
  return [...values.keys()].filter((index) => there(index) && !there(index - 1) && !there(index + 1));
}

function options(plot: Plot, width: number): uPlot.Options {
  const text = colour("--muted");
  const grid = { stroke: colour("--line"), width: 1 };
  const font = "12px 'Inter Variable', system-ui, sans-serif";
  const axis = { stroke: text, grid, ticks: grid, font };
  return {
    width, height: HEIGHT,
    legend: { show: false },
    cursor: { sync: { key: "rates" }, points: { size: 6 }, drag: { x: false, y: false } },
    hooks: { setCursor: [(chart) => { pointed.value = chart.cursor.idx ?? null; }] },
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    scales: { y: { range: (_, __, high) => [0, high > 0 ? high * 1.1 : 1] } },
    axes: [
      { ...axis, size: 40,
        values: (_, ticks, __, ___, step) => format.timeTicks(ticks, step) },
      { ...axis, size: 74,
        values: (_, ticks) => ticks.map((tick) => format.join(plot.unit(tick))) },
    ],
    series: [{}, ...plot.curves.map((curve, index): uPlot.Series => ({
      label: curve.label, stroke: colour(curve.colour), width: 1.5, spanGaps: false,
      points: { show: true, size: 4, filter: (chart, series) => alone([...(chart.data[series] ?? [])]) },
      ...(index > 0 ? { dash: [6, 4] } : {}),
    }))],
  };
}

function columns(history: History, plot: Plot): uPlot.AlignedData {
  const start = Date.parse(history.start) / 1000;
  const first = history.series[plot.curves[0]?.name ?? "events_per_second"];
  const times = first.map((_, index) => start + index * history.step_seconds);
  return [times, ...plot.curves.map((curve) => history.series[curve.name])];
}

/** In words what the curve shows, for those who do not see it. */
function spoken(history: History | null, plot: Plot, span: string): string {
  const parts = plot.curves.map((curve) => {
    const values = (history?.series[curve.name] ?? []).filter((value) => value !== null);
    const last = values.at(-1) ?? null;
    const most = values.length > 0 ? Math.max(...values) : null;
    return `${curve.label} ${format.join(plot.unit(last))} now, ${format.join(plot.unit(most))} at most`;
  });
  return `${plot.title}, last ${span}: ${parts.join("; ")}`;
}

function Chart({ plot, span }: { plot: Plot; span: string }) {
  const place = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot | null>(null);
  const theme = shown.value;
  const history = past.value;
  useEffect(() => {
    const element = place.current;
    if (!element) return undefined;
    const made = new uPlot(options(plot, element.clientWidth), [[]], element);
    chart.current = made;
    const watch = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    watch.observe(element);
    return () => {
      watch.disconnect();
      made.destroy();
      chart.current = null;
    };
  }, [theme]);
  useEffect(() => {
    if (history) chart.current?.setData(columns(history, plot));
  }, [history, theme]);
  return (
    <figure class="plot">
      <figcaption>
        <strong>{plot.title}</strong>
        {plot.curves.map((curve) => {
          const values = history?.series[curve.name] ?? [];
          const at = pointed.value;
          const shownValue = at === null ? values.findLast((value) => value !== null) : values[at];
          return (
            <span key={curve.name} class={`legend legend-${curve.name}`}>
              {curve.label} <span class="figure">{format.join(plot.unit(shownValue ?? null))}</span>
            </span>
          );
        })}
      </figcaption>
      <div ref={place} class="plot-place" role="img" aria-label={spoken(history, plot, span)} />
    </figure>
  );
}

const plots = (): Plot[] => linksOnly.value ? [SLICES, ...PLOTS.slice(1)] : PLOTS;

/** When the point under the pointer was. */
function pointedAt(): string | null {
  const [history, at] = [past.value, pointed.value];
  if (history === null || at === null) return null;
  return `${format.utc(Date.parse(history.start) + at * history.step_seconds * 1000)} UTC`;
}

export function Plots() {
  const chosen = RANGES[range.value] ?? RANGES[0];
  useEffect(() => {
    void refresh();
    const timer = setInterval(() => void refresh(), chosen?.refreshMs ?? 2000);
    return () => clearInterval(timer);
  }, [range.value]);
  return (
    <section class="panel" aria-labelledby="plots-title">
      <div class="panel-head">
        <h2 id="plots-title">Rates <span class="note">{pointedAt() ?? "times in UTC; a gap: no data"}</span></h2>
        <div class="choice" role="group" aria-label="Time range">
          {RANGES.map(({ label }, index) => (
            <button type="button" key={label} aria-pressed={index === range.value}
              onClick={() => { range.value = index; }}>{label}</button>
          ))}
        </div>
      </div>
      {failed.value === null ? null : <p class="error">{failed.value}</p>}
      <div class="plots">
        {plots().map((plot) => <Chart key={plot.title} plot={plot} span={chosen?.label ?? ""} />)}
      </div>
    </section>
  );
}
