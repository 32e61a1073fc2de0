// A storage node, which has no runs and no sources: the streams that recorders send, the folders in
// which they are, and what was refused.
import type { Store, StoreFolder, StoreStream } from "../api";
import * as format from "../format";
import { streamWords } from "../words";
import { Icon, STATUS_ICONS } from "./icon";
import { Stored } from "./stored";

function Badge({ stream }: { stream: StoreStream }) {
  const { text, status } = streamWords(stream);
  return <span class={`badge status-${status}`}><Icon name={STATUS_ICONS[status]} />{text}</span>;
}

const milliseconds = (seconds: number): string => `${(seconds * 1e3).toFixed(1)}\u00a0ms`;

function StreamRow({ stream }: { stream: StoreStream }) {
  const { name, recorder, taken, durable, syncs } = stream;
  const mean = syncs.total_seconds / Math.max(syncs.count, 1);
  return (
    <tr title={stream.reason ?? undefined}>
      <th scope="row">{name} <span class="note">{recorder ?? "nobody"}</span></th>
      <td><Badge stream={stream} /></td>
      <td class="number">{format.join(format.bytesPerSecond(stream.bytes_written_per_second))}</td>
      <td class="number wide">{format.join(format.bytes(stream.bytes_written))}</td>
      <td class="number">{format.count(durable)}</td>
      <td class="number wide">{format.count(taken - durable)}</td>
      <td class="number wide">{milliseconds(mean)}, up to {milliseconds(syncs.longest_seconds)}</td>
    </tr>
  );
}

function Streams({ streams }: { streams: StoreStream[] }) {
  const newest = [...streams].reverse();
  return (
    <section class="panel" aria-labelledby="streams-title">
      <h2 id="streams-title">Streams <span class="note">that recorders send; the newest first</span></h2>
      {newest.length === 0 ? <p class="calm-line">No recorder has sent anything since the node began.</p> : (
        <div class="table-place">
          <table class="sources streams">
            <thead>
              <tr>
                <th scope="col">Stream</th>
                <th scope="col">State</th>
                <th scope="col" class="number">Speed</th>
                <th scope="col" class="number wide">Written</th>
                <th scope="col" class="number">Durable frames</th>
                <th scope="col" class="number wide">Not yet</th>
                <th scope="col" class="number wide">Sync</th>
              </tr>
            </thead>
            <tbody>{newest.map((stream) => <StreamRow key={stream.name} stream={stream} />)}</tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function FolderRow({ folder }: { folder: StoreFolder }) {
  const { path, fault, free_bytes, total_bytes } = folder;
  const status = fault === null ? "good" : "loss";
  return (
    <tr title={fault ?? undefined}>
      <th scope="row" class="path">{path}</th>
      <td>
        <span class={`badge status-${status}`}>
          <Icon name={STATUS_ICONS[status]} />{fault === null ? "works" : "not used"}
        </span>
      </td>
      <td class="number">{format.join(format.bytes(free_bytes))} of {format.join(format.bytes(total_bytes))}</td>
      <td class="number">{format.join(format.bytesPerSecond(folder.bytes_written_per_second))}</td>
      <td class="number wide">{format.join(format.bytes(folder.bytes_written))}</td>
      <td class="number wide">{format.count(folder.failures)}</td>
    </tr>
  );
}

function Folders({ folders }: { folders: StoreFolder[] }) {
  return (
    <section class="panel" aria-labelledby="folders-title">
      <h2 id="folders-title">Folders</h2>
      <div class="table-place">
        <table class="sources folders">
          <thead>
            <tr>
              <th scope="col">Folder</th>
              <th scope="col">State</th>
              <th scope="col" class="number">Free</th>
              <th scope="col" class="number">Speed</th>
              <th scope="col" class="number wide">Written</th>
              <th scope="col" class="number wide">Failures</th>
            </tr>
          </thead>
          <tbody>{folders.map((folder) => <FolderRow key={folder.path} folder={folder} />)}</tbody>
        </table>
      </div>
      {folders.filter(({ fault }) => fault !== null).map(({ path, fault }) => (
        <p key={path} class="calm-line note"><Icon name="info" />{path}: {fault}</p>
      ))}
    </section>
  );
}

const plain = (count: number) => <dd class="figure">{format.count(count)}</dd>;

function Refusals({ store }: { store: Store }) {
  const { frames } = store;
  const guards = [store.tls ? "TLS" : "", store.tokens ? "tokens" : ""].filter((one) => one !== "");
  return (
    <section class="panel" aria-labelledby="refusals-title">
      <h2 id="refusals-title">Frames and refusals</h2>
      <dl class="facts">
        <dt>Address</dt>
        <dd>{store.address}, {guards.length === 0 ? "in the clear, without tokens" : guards.join(" and ")}</dd>
        <dt>Frames taken</dt>{plain(frames.taken)}
        <dt>Sent again, there already</dt>{plain(frames.repeated)}
        <dt>Refused: changed on their way</dt>{plain(frames.corrupt)}
        <dt>Refused: do not fit</dt>{plain(frames.unfit)}
        <dt>Refused: a later writer is there</dt>{plain(frames.superseded)}
        {Object.entries(store.refusals).map(([reason, count]) => (
          <><dt>Sessions refused: {reason.replaceAll("_", " ")}</dt>{plain(count)}</>
        ))}
        <dt>Connections that never began</dt>{plain(store.connections_unopened)}
      </dl>
    </section>
  );
}

export function StoreNode({ store }: { store: Store }) {
  return (
    <>
      <Streams streams={store.streams} />
      <Stored streams={store.streams.length} />
      <Folders folders={store.folders} />
      <Refusals store={store} />
    </>
  );
}
