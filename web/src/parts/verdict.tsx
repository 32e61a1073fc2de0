// The verdict, first and largest: a colour, a word and a sign, why and where. Beside it what may be
// done about it.
import { effect, signal } from "@preact/signals";
import goodIcon from "../icons/good.svg";
import lossIcon from "../icons/loss.svg";
import notRecordingIcon from "../icons/not_recording.svg";
import unknownIcon from "../icons/unknown.svg";
import type { Level, Verdict as Said } from "../api";
import { announcement, folded, sameVerdict } from "../announce";
import { stale, state } from "../store";
import { headline, isBeginning, verdictWords } from "../words";
import { Control } from "./control";
import { Emulated } from "./emulated";
import { Icon, LEVEL_ICONS } from "./icon";

const TAB_ICONS: Record<Level, string> = {
  good: goodIcon, held: lossIcon, bad_data: lossIcon, loss: lossIcon,
  heavy_bad_data: notRecordingIcon, heavy_loss: notRecordingIcon, not_recording: notRecordingIcon,
};
const TAB_SIGNS: Record<Level, string> = {
  good: "✓", held: "⚠", bad_data: "⚠", loss: "⚠", heavy_bad_data: "‼", heavy_loss: "‼", not_recording: "✕",
};
const REASONS_MAX = 4;

const announced = signal<Said | null>(null);

/** The tab's title and sign follow the verdict; so does what a screen reader hears. */
export function watchVerdict(): void {
  effect(() => {
    const verdict = state.value?.verdict;
    if (!verdict) return;
    const before = announced.peek();
    if (!before || !sameVerdict(before, verdict)) announced.value = verdict;
  });
  effect(() => {
    const verdict = stale.value ? null : (state.value?.verdict ?? null);
    const level = verdict?.level ?? null;
    const run = state.value?.run?.number;
    const stores = Boolean(state.value?.store);
    const icon = document.getElementById("icon");
    if (icon instanceof HTMLLinkElement) {
      icon.href = level && !(verdict && isBeginning(verdict)) ? TAB_ICONS[level] : unknownIcon;
    }
    document.title = verdict && level
      ? `${isBeginning(verdict) ? "…" : TAB_SIGNS[level]} ${verdictWords(verdict, stores)}${
        run === undefined ? "" : `, run ${run}`} · Catchment`
      : "? No connection · Catchment";
  });
}

export function Verdict() {
  const now = state.value;
  if (!now) return null;
  const { verdict } = now;
  const begins = isBeginning(verdict);
  const tone = begins ? "beginning" : verdict.level;
  const { shown, details } = folded(verdict);
  return (
    <section class={`verdict level-${tone}`} aria-label="Verdict" data-level={verdict.level}>
      <div class="verdict-sign">
        <Icon name={begins ? "never" : LEVEL_ICONS[verdict.level]} />
      </div>
      <div class="verdict-text">
        <h1>{headline(verdict, Boolean(now.store))}</h1>
        {now.emulated ? <Emulated long /> : null}
        <ul>
          {shown.slice(0, REASONS_MAX).map((reason) => <li key={reason}>{reason}</li>)}
          {shown.length > REASONS_MAX ? <li>and {shown.length - REASONS_MAX} more</li> : null}
        </ul>
        {details.length === 0 ? null : (
          <details class="verdict-details">
            <summary>Details, with paths</summary>
            <ul>{details.map((one) => <li key={one}>{one}</li>)}</ul>
          </details>
        )}
      </div>
      <Control now={now} />
    </section>
  );
}

export function Announcer() {
  const verdict = announced.value;
  return (
    <p class="unseen" role="status" aria-live="polite" data-test="announcer">
      {verdict ? announcement(verdict, Boolean(state.value?.store)) : ""}
    </p>
  );
}
