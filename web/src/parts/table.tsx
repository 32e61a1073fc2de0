// A table that draws only the rows in sight.
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";

const ROW_PX = 36;
const ROWS_AHEAD = 8;

interface LongTableProps<T> {
  items: T[];
  label: string;
  /** How many rows are in sight; the others are reached by scrolling. */
  rows: number;
  head: ComponentChildren;
  row: (item: T, index: number) => ComponentChildren;
  /** What stands there instead of an empty table. */
  none: string;
}

export function LongTable<T>({ items, label, rows, head, row, none }: LongTableProps<T>) {
  const top = useSignal(0);
  const first = Math.max(0, Math.min(Math.floor(top.value / ROW_PX) - ROWS_AHEAD, items.length - rows));
  const seen = items.slice(first, first + rows + 2 * ROWS_AHEAD);
  const below = items.length - first - seen.length;
  const height = Math.min(items.length, rows) * ROW_PX + ROW_PX + 2;
  return (
    <div
      class="table-place" tabIndex={0} role="region" aria-label={label}
      style={{ maxBlockSize: `${height}px` }}
      onScroll={(event) => { top.value = event.currentTarget.scrollTop; }}
    >
      <table class="sources" aria-rowcount={items.length + 1}>
        <thead><tr>{head}</tr></thead>
        <tbody>
          {first > 0 ? <tr class="spacer" aria-hidden="true" style={{ blockSize: `${first * ROW_PX}px` }} /> : null}
          {seen.map((item, index) => row(item, first + index))}
          {below > 0 ? <tr class="spacer" aria-hidden="true" style={{ blockSize: `${below * ROW_PX}px` }} /> : null}
        </tbody>
      </table>
      {items.length === 0 ? <p class="note empty">{none}</p> : null}
    </div>
  );
}
