// What a screen reader is told of the verdict: that it changed, not each figure in it.
import type { Verdict } from "./api";
import { verdictWords } from "./words";

const withoutFigures = (text: string): string => text.replace(/[\d.,]+/g, "#");

/** Whether two verdicts mean the same, but for the figures that count on in their words. */
export function sameVerdict(a: Verdict, b: Verdict): boolean {
  return a.level === b.level && withoutFigures(a.text) === withoutFigures(b.text);
}

/** What the large words do not say. Where nothing is recorded the verdict's text is the first
 * reason; elsewhere it sums the reasons up. */
export function why(verdict: Verdict): string[] {
  return verdict.level === "not_recording" ? [verdict.text, ...verdict.reasons] : verdict.reasons;
}

const PATH = /(^|[\s("'])(?:\/[^\s:,;"')/]+)+/g;

/** What stands beside the large words, and what with a path in it is folded away: only the first
 * line stays, with the end of its path. */
export function folded(verdict: Verdict): { shown: string[]; details: string[] } {
  const lines = why(verdict);
  const details = lines.filter((line) => line.search(PATH) >= 0);
  const shown = lines.filter((line, index) => index === 0 || !details.includes(line));
  const short = (line: string) => line.replace(PATH, (path, before: string) =>
    `${before}…${path.slice(path.lastIndexOf("/"))}`);
  return { shown: shown.map(short), details };
}

export function announcement(verdict: Verdict, stores = false): string {
  const first = verdict.level === "good" ? undefined : why(verdict)[0];
  const words = verdictWords(verdict, stores);
  return first === undefined ? words : `${words}: ${first}`;
}
