// The places that get the run's frames, if there are several, or storage nodes that share them, or
// a spill: a row for each, and one of them in a drawer, with what became of each source's fragments
// in it.
import type { Queue, SourceState, Spill, State, Target, TargetNode } from "../api";
import * as format from "../format";
import { go, link } from "../route";
import { sources, whichRun } from "../store";
import {
  folderWaitWords, lackWords, nodeAwayWords, nodeWords, spillLossWords, spillWaitWords, spillWords, targetWords,
} from "../words";
import { Fill } from "./figure";
import { Icon, STATUS_ICONS } from "./icon";
import { LedgerTable } from "./ledger";
import { Drawer } from "./modal";
import { LongTable } from "./table";

const ROWS = 12;
const share = ({ level_bytes, capacity_bytes }: Queue): number =>
  capacity_bytes > 0 ? level_bytes / capacity_bytes : 0;
const role = ({ required }: Target): string => (required ? "required" : "best effort");

function StateBadge({ target }: { target: Target }) {
  const { text, status } = targetWords(target);
  return <span class={`badge status-${status}`}><Icon name={STATUS_ICONS[status]} />{text}</span>;
}

function Row({ target }: { target: Target }) {
  const { name, queue, ledger } = target;
  const level = share(queue);
  return (
    <tr onClick={() => go("overview", name)}>
      <th scope="row"><a href={link("overview", name)}>{name}</a> <span class="note">{role(target)}</span></th>
      <td><StateBadge target={target} /></td>
      <td class="number">{format.join(format.bytesPerSecond(target.bytes_written_per_second))}</td>
      <td class="wide">
        <div class="queue">
          <Fill level={level} label={`Queue of ${name}`} calm={!target.required} />
          <span class="figure">{format.wholePercent(level)}</span>
        </div>
      </td>
      <td class="number wide">{format.count(ledger.fragments_durable ?? 0)}</td>
      <td class="number">{format.count(ledger.fragments_not_taken ?? 0)}</td>
      <td class="number wide">{format.count(ledger.fragments_discarded_disk ?? 0)}</td>
    </tr>
  );
}

const queueWords = (queue: Queue): string =>
  `${format.wholePercent(share(queue))} of ${format.join(format.bytes(queue.capacity_bytes))}`;

const ENTRIES: [string, string, string][] = [
  ["Recorded", "fragments_recorded", "number"], ["Durable", "fragments_durable", "number wide"],
  ["Not taken", "fragments_not_taken", "number"], ["Discarded", "fragments_discarded_disk", "number"],
];

const OF_SPILL: typeof ENTRIES = [
  ["Spilled", "fragments_spilled", "number wide"], ["Forwarded", "fragments_forwarded", "number wide"],
];

/** One target's line of the ledger, source by source. */
function Lines({ name, hasSpill }: { name: string; hasSpill: boolean }) {
  const entries = hasSpill ? [...ENTRIES, ...OF_SPILL] : ENTRIES;
  const head = (
    <>
      <th scope="col">Source</th>
      {entries.map(([words, entry, kind]) => <th key={entry} scope="col" class={kind}>{words}</th>)}
    </>
  );
  const row = (source: SourceState, index: number) => (
    <tr key={source.name} aria-rowindex={index + 2} onClick={() => go("sources", source.name)}>
      <th scope="row"><a href={link("sources", source.name)}>{source.name}</a></th>
      {entries.map(([, entry, kind]) => (
        <td key={entry} class={kind}>{format.count(source.targets[name]?.[entry] ?? 0)}</td>
      ))}
    </tr>
  );
  return <LongTable items={sources.value} label={`Sources in ${name}`} rows={ROWS} head={head} row={row} none="No source." />;
}

function NodeRow({ node }: { node: TargetNode }) {
  const { text, status } = nodeWords(node);
  return (
    <tr title={node.away ?? undefined}>
      <th scope="row">{node.address}</th>
      <td><span class={`badge status-${status}`}><Icon name={STATUS_ICONS[status]} />{text}</span></td>
      <td class="number">{format.count(node.frames_durable)}</td>
      <td class="number wide">{format.join(format.bytes(node.bytes_durable))}</td>
      <td class="number">{format.join(format.bytes(node.bytes_held))}</td>
    </tr>
  );
}

/** The storage nodes that share a target's frames. */
function Nodes({ nodes }: { nodes: TargetNode[] }) {
  return (
    <>
      <h3>Storage nodes</h3>
      <div class="table-place">
        <table class="sources nodes" aria-label="Storage nodes">
          <thead>
            <tr>
              <th scope="col">Node</th>
              <th scope="col">State</th>
              <th scope="col" class="number">Durable frames</th>
              <th scope="col" class="number wide">Durable</th>
              <th scope="col" class="number">On the way</th>
            </tr>
          </thead>
          <tbody>{nodes.map((node) => <NodeRow key={node.address} node={node} />)}</tbody>
        </table>
      </div>
    </>
  );
}

const inFrames = (frames: number, bytes: number): string =>
  `${format.join(format.bytes(bytes))} in ${format.many(frames, "frame")}`;

/** What a target's spill has, and had. */
function SpillFacts({ spill }: { spill: Spill }) {
  return (
    <>
      <dt>Spill</dt><dd class="path">{spill.folder}</dd>
      <dt>Waiting there</dt>
      <dd class="figure">
        {inFrames(spill.frames_waiting, spill.bytes_waiting)}, of {format.join(format.bytes(spill.bytes_max))}
      </dd>
      <dt>Spilled</dt><dd class="figure">{inFrames(spill.frames_spilled, spill.bytes_spilled)}</dd>
      <dt>Forwarded</dt><dd class="figure">{inFrames(spill.frames_forwarded, spill.bytes_forwarded)}</dd>
      {spill.problems.map((problem) => <><dt>Trouble</dt><dd class="path">{problem}</dd></>)}
    </>
  );
}

function TargetDrawer({ target, spill }: { target: Target; spill: Spill | undefined }) {
  const { name, folder, node, nodes, reason, buffers } = target;
  return (
    <Drawer title={name} close={() => go("overview")}>
      <dl class="facts">
        <dt>Role</dt><dd>{role(target)}</dd>
        <dt>State</dt><dd><StateBadge target={target} /></dd>
        {reason === null ? null : <><dt>Why</dt><dd class="path">{reason}</dd></>}
        {node === null ? <><dt>Folder</dt><dd class="path">{folder ?? "none"}</dd></>
          : <><dt>Storage node{nodes.length > 1 ? "s" : ""}</dt><dd class="path">{node}</dd></>}
        <dt>Written</dt>
        <dd class="figure">
          {format.join(format.bytes(target.bytes_written))}, {format.join(format.bytesPerSecond(target.bytes_written_per_second))} now
        </dd>
        <dt>Queue</dt><dd class="figure">{queueWords(target.queue)}</dd>
        {buffers === null ? null : <><dt>Disk buffers</dt><dd class="figure">{queueWords(buffers)}</dd></>}
        {spill ? <SpillFacts spill={spill} /> : null}
      </dl>
      {nodes.length > 1 ? <Nodes nodes={nodes} /> : null}
      <h3>Ledger of {whichRun()} in {name}</h3>
      <LedgerTable counts={target.ledger} />
      <h3>By source</h3>
      <Lines name={name} hasSpill={spill !== undefined} />
    </Drawer>
  );
}

/** With one target, which is one folder or node, all of this is said of the run. */
export function Targets({ now, item }: { now: State; item: string | null }) {
  const { targets, spills, time } = now;
  const isPlain = targets.length < 2
    && targets.every((target) => target.nodes.length < 2 && folderWaitWords(target).length === 0);
  // A spill has frames of earlier runs, too: also before there is one.
  if (spills.length === 0 && isPlain) return null;
  const shown = targets.find(({ name }) => name === item);
  const notes = [
    ...targets.flatMap(folderWaitWords),
    ...targets.flatMap((target) => nodeAwayWords(target, time)),
    ...spills.map(spillWaitWords), ...spills.map(spillWords), ...targets.map(lackWords),
  ].filter((words) => words !== "");
  const faults = spills.map(spillLossWords).filter((words) => words !== "");
  if (targets.length === 0 && notes.length + faults.length === 0) return null;
  return (
    <section class="panel" aria-labelledby="targets-title">
      <h2 id="targets-title">Targets{targets.length > 0 ? <> <span class="note">of {whichRun()}</span></> : null}</h2>
      {targets.length === 0 ? null : (
        <div class="table-place">
          <table class="sources targets">
            <thead>
              <tr>
                <th scope="col">Target</th>
                <th scope="col">State</th>
                <th scope="col" class="number">Speed</th>
                <th scope="col" class="wide">Queue</th>
                <th scope="col" class="number wide">Durable</th>
                <th scope="col" class="number">Not taken</th>
                <th scope="col" class="number wide">Discarded</th>
              </tr>
            </thead>
            <tbody>{targets.map((target) => <Row key={target.name} target={target} />)}</tbody>
          </table>
        </div>
      )}
      {faults.map((words) => <p key={words} class="calm-line fault-line"><Icon name="warning" />{words}</p>)}
      {notes.map((words) => <p key={words} class="calm-line note"><Icon name="info" />{words}</p>)}
      {shown ? <TargetDrawer target={shown} spill={spills.find(({ target }) => target === shown.name)} /> : null}
    </section>
  );
}
