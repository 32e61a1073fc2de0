// Small still graphs, drawn as SVG: a histogram's bars and an array's line. Both with their scales.
import * as format from "../format";
import type { Bars } from "../histogram";

const WIDTH = 480;
const HEIGHT = 120;

/** `scale` writes a value of the scale; with the unit and a prefix, unless it is given. */
export function Histogram({ bars, unit, label, scale }: {
  bars: Bars; unit: string; label: string; scale?: (value: number) => string;
}) {
  const shown = scale ?? ((value: number) => format.join(format.si(value, unit)));
  const { edges, heights, total, each } = bars;
  const most = Math.max(Number.MIN_VALUE, ...heights);
  const low = edges[0] ?? 0;
  const span = (edges.at(-1) ?? 1) - low || 1;
  const x = (value: number) => ((value - low) / span) * WIDTH;
  return (
    <figure class="graph">
      <figcaption class="note">
        {label}: {format.count(total)} entries, at most {format.count(most)} {each}
      </figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img"
        aria-label={`${label} from ${shown(low)} to ${shown(low + span)}`}>
        {heights.map((value, index) => {
          const from = x(edges[index] ?? 0);
          const height = (value / most) * HEIGHT;
          return (
            <rect key={index} class="bar" x={from} width={Math.max(0.5, x(edges[index + 1] ?? 0) - from - 1)}
              y={HEIGHT - height} height={height} />
          );
        })}
      </svg>
      <div class="graph-scale note">
        <span>{shown(low)}</span>
        <span>{shown(low + span)}</span>
      </div>
    </figure>
  );
}

export function Line({ values, label }: { values: (number | null)[]; label: string }) {
  const known = values.filter((value) => value !== null);
  const low = Math.min(...known);
  const high = Math.max(...known);
  const step = WIDTH / Math.max(1, values.length - 1);
  let path = "";
  let broken = true;
  values.forEach((value, index) => {
    if (value === null) {
      broken = true;
      return;
    }
    const y = HEIGHT - 2 - ((value - low) / (high - low || 1)) * (HEIGHT - 4);
    path += `${broken ? "M" : "L"}${(index * step).toFixed(1)} ${y.toFixed(1)}`;
    broken = false;
  });
  return (
    <figure class="graph">
      <figcaption class="note">{label}</figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img"
        aria-label={`${label}, from ${format.plain(low)} to ${format.plain(high)}`}>
        <path class="curve" d={path} />
      </svg>
      <div class="graph-scale note"><span>from {format.plain(low)} to {format.plain(high)}</span></div>
    </figure>
  );
}
