// Sources: groups as tiles with one cell per source, and a table, worst first.
import type { SourceState } from "../api";
import * as format from "../format";
import type { Group } from "../order";
import { go, link } from "../route";
import { whichRun } from "../store";
import { SOURCE_WORDS, entryWords, topEntries } from "../words";
import { Icon, STATUS_ICONS } from "./icon";
import { LongTable } from "./table";

export function SourceStatusBadge({ status }: { status: SourceState["status"] }) {
  return <span class={`badge status-${status}`}><Icon name={STATUS_ICONS[status]} />{SOURCE_WORDS[status]}</span>;
}

function groupWords(group: Group): string {
  const words = (["never", "silent", "out_of_step", "loss", "bad_data", "good", "off"] as const)
    .filter((status) => group.counts[status] > 0)
    .map((status) => `${format.count(group.counts[status])} ${SOURCE_WORDS[status]}`);
  if (group.absent > 0) words.push(`${format.count(group.absent)} optional, not seen`);
  return words.join(", ");
}

export function GroupTile({ group }: { group: Group }) {
  return (
    <li class={`group status-${group.worst}`}>
      <div class="group-head">
        <Icon name={STATUS_ICONS[group.worst]} />
        <strong>{group.name}</strong>
        <span class="figure">{format.join(format.bytesPerSecond(group.bytes))}</span>
      </div>
      <div class="cells" aria-hidden="true">
        {group.members.map((source) => (
          <a
            key={source.name} tabIndex={-1} class={`cell status-${source.status}`}
            href={link("sources", source.name)} title={`${source.name}: ${SOURCE_WORDS[source.status]}`}
          />
        ))}
      </div>
      <div class="note">{format.many(group.members.length, "source")}: {groupWords(group)}</div>
    </li>
  );
}

function lossWords(source: SourceState): string {
  const top = topEntries({ ...source.loss, ...source.bad }, 2);
  if (top.length === 0) return "none";
  return top.map(([entry, value]) => `${format.count(value)} ${entryWords(entry)}`).join(", ");
}

function Row({ source, index }: { source: SourceState; index: number }) {
  const age = source.last_packet_seconds;
  const open = () => go("sources", source.name);
  return (
    <tr class={`status-${source.status}`} aria-rowindex={index + 2} onClick={open}>
      <th scope="row"><a href={link("sources", source.name)}>{source.name}</a></th>
      <td><SourceStatusBadge status={source.status} /></td>
      <td class="number wide">{format.join(format.si(source.packets_per_second, "/s"))}</td>
      <td class="number">{format.join(format.bytesPerSecond(source.bytes_per_second))}</td>
      <td class="number">{format.join(format.perSecond(source.loss_per_second))}</td>
      <td class="wide grow">{lossWords(source)}</td>
      <td class="number wide">{format.wholePercent(source.fill)}</td>
      <td class="number">{age === null ? "never" : format.join(format.duration(age))}</td>
    </tr>
  );
}

interface TableProps { sources: SourceState[]; label: string; rows: number }

export function SourceTable({ sources, label, rows }: TableProps) {
  const head = (
    <>
      <th scope="col">Source</th>
      <th scope="col">Status</th>
      <th scope="col" class="number wide">Packets</th>
      <th scope="col" class="number">Data</th>
      <th scope="col" class="number">Loss</th>
      <th scope="col" class="wide grow">Lost or bad in {whichRun()}</th>
      <th scope="col" class="number wide">Fill</th>
      <th scope="col" class="number">Last packet</th>
    </>
  );
  return (
    <LongTable items={sources} label={label} rows={rows} head={head} none="No source."
      row={(source, index) => <Row key={source.name} source={source} index={index} />} />
  );
}
