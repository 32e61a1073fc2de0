// The figures of the run.
import type { CurrentRun, State } from "../api";
import * as format from "../format";
import { linksOnly } from "../store";
import { entryWords, topEntries } from "../words";
import { Tile, type Tone } from "./figure";

const DISK_HOURS_LOW = 4;
const DISK_HOURS_OUT = 1;

function diskTone(hours: number | null, free: number | null): Tone {
  if ((free !== null && free <= 0) || (hours !== null && hours < DISK_HOURS_OUT)) return "bad";
  return hours !== null && hours < DISK_HOURS_LOW ? "loss" : "calm";
}

function lossNote(now: State): string {
  if (now.loss.count === 0) return "nothing lost in this run";
  const top = topEntries(now.loss.by_entry, 1).map(([entry]) => entryWords(entry));
  return `${format.join(format.share(now.loss.share))} of all · ${top.join(", ")}`;
}

const plain = (value: string): format.Quantity => ({ value, unit: "" });

/** What has no value without a run. */
function RunTiles({ now, run }: { now: State; run: CurrentRun }) {
  const { rates, loss } = now;
  const written = format.join(format.bytes(run.bytes_written));
  const packets = format.si(rates.packets_per_second, "");
  const files = `${written} in ${format.many(run.files, "file")}`;
  return (
    <>
      <Tile label="Run" value={plain(String(run.number))}
        note={`since ${format.utcSince(run.started, now.time)} UTC`} />
      <Tile label="Time" value={plain(format.shortClock(run.seconds))}
        note={run.seconds < 86_400 ? "h:min:s" : "days, h:min"} title={format.clock(run.seconds)} />
      {linksOnly.value ? (
        <>
          <Tile label="Frames" value={format.shortCount(run.frames)}
            title={format.count(run.frames)} note={files} />
          <Tile label="Packets in" value={format.si(rates.packets_per_second, "/s")}
            note={`from ${format.many(now.sources.count, "link")}`} />
        </>
      ) : (
        <>
          <Tile label="Events" value={format.shortCount(run.events)}
            title={format.count(run.events)} note={files} />
          <Tile label="Event rate" value={format.perSecond(rates.events_per_second)}
            note={`${format.join(packets)} packets/s in`} />
        </>
      )}
      <DataTile now={now} />
      <Tile label="Lost" value={format.shortCount(loss.count)} title={format.count(loss.count)}
        tone={loss.count > 0 ? "loss" : "calm"} note={lossNote(now)} />
      <Tile label="Dead time" value={format.share(now.dead_time)}
        tone={(now.dead_time ?? 0) > 0 ? "loss" : "calm"} note="of the last 10 s" />
    </>
  );
}

function DataTile({ now: { rates } }: { now: State }) {
  return (
    <Tile label="Data in" value={format.bytesPerSecond(rates.bytes_per_second)}
      note={`${format.join(format.bytesPerSecond(rates.bytes_written_per_second))} to disk`} />
  );
}

/** How long the disk lasts; what is free on it where nothing was written yet. */
function DiskTile({ now: { disk } }: { now: State }) {
  if (!disk || (disk.hours_left === null && disk.free_bytes === null)) return null;
  const tone = diskTone(disk.hours_left, disk.free_bytes);
  const free = format.bytes(disk.free_bytes);
  const total = format.join(format.bytes(disk.total_bytes));
  if (disk.hours_left === null) {
    return <Tile label="Disk free" value={free} tone={tone} note={`of ${total}`} />;
  }
  return (
    <Tile label="Disk full in" value={format.hoursLeft(disk.hours_left)} tone={tone}
      note={disk.free_bytes === null ? "" : `${format.join(free)} of ${total} free`} />
  );
}

export function Tiles({ now }: { now: State }) {
  return (
    <dl class={now.run ? "tiles" : "tiles without-run"}>
      {now.run ? <RunTiles now={now} run={now.run} /> : <DataTile now={now} />}
      <DiskTile now={now} />
    </dl>
  );
}
