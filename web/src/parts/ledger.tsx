// A ledger's entries, losses first.
import type { Counts } from "../api";
import * as format from "../format";
import { entryWords, isBytes, isLoss } from "../words";
import { Icon } from "./icon";

interface LedgerProps {
  counts: Counts;
  /** What stands there instead of an empty table. */
  none?: string | undefined;
}

export function LedgerTable({ counts, none = "Nothing counted." }: LedgerProps) {
  const entries = Object.entries(counts).sort(([a], [b]) => Number(isLoss(b)) - Number(isLoss(a)));
  if (entries.length === 0) return <p class="note">{none}</p>;
  return (
    <table class="ledger">
      <thead><tr><th scope="col">Entry</th><th scope="col" class="number">Count</th></tr></thead>
      <tbody>
        {entries.map(([entry, value]) => (
          <tr key={entry} class={isLoss(entry) && value > 0 ? "is-loss" : ""}>
            <th scope="row" title={entry}>
              {isLoss(entry) && value > 0 ? <Icon name="warning" /> : null}{entryWords(entry)}
            </th>
            <td class="number">{format.count(value)}{isBytes(entry) ? "\u00a0B" : ""}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
