// The figures of the run.
import type { State } from "../api";
import * as format from "../format";
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

export function Tiles({ now }: { now: State }) {
  const { run, rates, loss, disk } = now;
  const plain = (value: string) => ({ value, unit: "" });
  return (
    <dl class="tiles">
      <Tile label="Run" value={plain(run ? String(run.number) : format.UNKNOWN)}
        note={run ? `since ${format.utcSince(run.started, now.time)} UTC` : "none"} />
      <Tile label="Time" value={plain(run ? format.shortClock(run.seconds) : format.UNKNOWN)}
        note={!run ? "" : run.seconds < 86_400 ? "h:min:s" : "days, h:min"} title={format.clock(run?.seconds)} />
      <Tile label="Events" value={format.shortCount(run?.events)} title={format.count(run?.events)}
        note={run ? `${format.join(format.bytes(run.bytes_written))} in ${format.many(run.files, "file")}` : ""} />
      <Tile label="Event rate" value={format.perSecond(rates.events_per_second)}
        note={`${format.join(format.si(rates.packets_per_second, ""))} packets/s in`} />
      <Tile label="Data in" value={format.bytesPerSecond(rates.bytes_per_second)}
        note={`${format.join(format.bytesPerSecond(rates.bytes_written_per_second))} to disk`} />
      <Tile label="Lost" value={format.shortCount(loss.count)} title={format.count(loss.count)}
        tone={loss.count > 0 ? "loss" : "calm"} note={lossNote(now)} />
      <Tile label="Dead time" value={format.share(now.dead_time)}
        tone={(now.dead_time ?? 0) > 0 ? "loss" : "calm"} note="of the last 10 s" />
      <Tile label="Disk full in" value={format.hoursLeft(disk?.hours_left)}
        tone={disk ? diskTone(disk.hours_left, disk.free_bytes) : "calm"}
        note={disk && disk.free_bytes !== null ? `${format.join(format.bytes(disk.free_bytes))} of ${format.join(format.bytes(disk.total_bytes))} free` : ""} />
    </dl>
  );
}
