// What a screen reader is told of the verdict: that it changed, not each figure in it.
import type { Verdict } from "./api";
import { VERDICT_WORDS } from "./words";

const withoutFigures = (text: string): string => text.replace(/[\d.,]+/g, "#");

/** Whether two verdicts mean the same, but for the figures that count on in their words. */
export function sameVerdict(a: Verdict, b: Verdict): boolean {
  return a.level === b.level && withoutFigures(a.text) === withoutFigures(b.text);
}

/** What the large words do not say. Where nothing is recorded the verdict's text is the first reason;
 * elsewhere it sums the reasons up. */
export function why(verdict: Verdict): string[] {
  return verdict.level === "not_recording" ? [verdict.text, ...verdict.reasons] : verdict.reasons;
}

export function announcement(verdict: Verdict): string {
  const first = verdict.level === "good" ? undefined : why(verdict)[0];
  return first === undefined ? VERDICT_WORDS[verdict.level] : `${VERDICT_WORDS[verdict.level]}: ${first}`;
}
