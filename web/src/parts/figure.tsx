// A figure with its unit, and tiles of them.
import type { ComponentChildren } from "preact";
import { type Quantity, join } from "../format";
import { Icon } from "./icon";

export function Figure({ of }: { of: Quantity }) {
  return (
    <span class="figure">
      {of.value}
      {of.unit === "" ? null : <span class="unit">{`\u00a0${of.unit}`}</span>}
    </span>
  );
}

export type Tone = "calm" | "loss" | "bad";

interface TileProps {
  label: string;
  value: Quantity;
  note?: ComponentChildren;
  tone?: Tone;
  /** All of it, where the value is shortened. */
  title?: string;
}

export function Tile({ label, value, note, tone = "calm", title }: TileProps) {
  return (
    <div class={`tile tone-${tone}`} title={title}>
      <dt>
        {tone === "calm" ? null : <Icon name={tone === "bad" ? "stop" : "warning"} />}
        {label}
      </dt>
      <dd>
        <Figure of={value} />
        <span class="note">{note ?? "\u00a0"}</span>
      </dd>
    </div>
  );
}

interface FillProps {
  level: number;
  highest?: number;
  label: string;
  /** Whether a full one is no trouble. */
  calm?: boolean;
}

/** A bar from 0 to 1, with the highest level so far as a mark. */
export function Fill({ level, highest, label, calm = false }: FillProps) {
  const tone = calm ? "calm" : level > 0.8 ? "bad" : level > 0.5 ? "loss" : "calm";
  const percent = (value: number) => `${Math.min(100, Math.max(0, value * 100)).toFixed(1)}%`;
  return (
    <span
      class={`fill tone-${tone}`} role="meter" aria-label={label}
      aria-valuemin={0} aria-valuemax={100} aria-valuenow={Math.round(level * 100)}
      aria-valuetext={join({ value: String(Math.round(level * 100)), unit: "%" })}
    >
      <span class="fill-level" style={{ inlineSize: percent(level) }} />
      {highest === undefined ? null : <span class="fill-highest" style={{ insetInlineStart: percent(highest) }} />}
    </span>
  );
}
