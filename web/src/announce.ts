// What a screen reader is told of the verdict: that it changed, not each figure in it.
import type { Verdict } from "./api";
import { VERDICT_WORDS } from "./words";

const withoutFigures = (text: string): string => text.replace(/[\d.,]+/g, "#");

/** Whether two verdicts mean the same, but for the figures that count on in their words. */
export function sameVerdict(a: Verdict, b: Verdict): boolean {
  return a.level === b.level && withoutFigures(a.text) === withoutFigures(b.text);
}

export function announcement(verdict: Verdict): string {
  const why = verdict.level === "good" ? "" : `: ${verdict.reasons[0] ?? verdict.text}`;
  return `${VERDICT_WORDS[verdict.level]}${why}`;
}
