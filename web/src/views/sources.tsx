// All sources, with filter; one of them in a drawer: its ledger and a sample of what it sends.
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { LinkState, Offsets, Sample, SampleAnswer, SourceState, SourceStatus } from "../api";
import { ApiError, get, reason } from "../client";
import * as format from "../format";
import { hexRows } from "../hex";
import { type Bars, beyondBars, evened, placedNs } from "../histogram";
import { filtered, groups, worstFirst } from "../order";
import { Histogram, Line } from "../parts/graph";
import { LedgerTable } from "../parts/ledger";
import { Drawer } from "../parts/modal";
import { GroupTile, SourceStatusBadge, SourceTable } from "../parts/sources";
import { go } from "../route";
import { sources, stale, whichRun } from "../store";
import { ANSWER_WORDS, abandonedWords, answersWords, offsetsWords, untilDurableWords } from "../words";

type HistogramOf = NonNullable<Sample["histogram"]>;

const search = signal("");
const status = signal<SourceStatus | "bad" | "all">("all");
const STATUSES: [SourceStatus | "bad" | "all", string][] = [
  ["all", "all"], ["bad", "need attention"], ["loss", "loss"], ["bad_data", "bad data"], ["out_of_step", "out of step"],
  ["silent", "silent"], ["never", "never seen"], ["good", "good"],
];
const ROWS = 18;
const SAMPLE_MS = 1000;
const VALUES_MAX = 64;

const sample = signal<Sample | null>(null);
const sampleError = signal<string | null>(null);
/** There is nothing to be shown now, which is no failure; in the node's words. */
const sampleNone = signal<string | null>(null);
const running = signal(true);
/** Of a link: its channels, and the one that is looked at. */
const channels = signal<string[]>([]);
const channel = signal<string | null>(null);
/** The source that the drawer shows. */
let looked = "";

async function fetchSample(name: string): Promise<void> {
  const asked = channel.peek();
  const query = asked === null ? "" : `?channel=${encodeURIComponent(asked)}`;
  try {
    const next = await get<Sample>(`/sources/${encodeURIComponent(name)}/sample${query}`);
    // Somebody chose another one meanwhile.
    if (looked !== name || channel.peek() !== asked) return;
    if (next.channel && next.channel.channels.length > 0) {
      channels.value = next.channel.channels;
      channel.value = next.channel.name;
    }
    sample.value = next;
    sampleError.value = null;
    sampleNone.value = null;
  } catch (error) {
    if (looked !== name || channel.peek() !== asked) return;
    // It is being read, and will be there in a moment.
    if (error instanceof ApiError && error.status === 503) return;
    // The next run may have other channels: which, is asked anew.
    const none = error instanceof ApiError && error.status === 404;
    if (none) channel.value = null;
    sampleNone.value = none ? reason(error) : null;
    sampleError.value = none ? null : reason(error);
  }
}

/** Why nothing is shown: of a source that has recorded something, the last frame has none. */
function noneWords(source: SourceState, said: string): string {
  if (!/no recorded (event|sample)/.test(said)) return `${said}.`;
  const one = source.kind === "events" ? "event" : "sample";
  return (source.ledger.fragments_recorded ?? 0) > 0
    ? `No ${one} of ${source.name} in the last frame.`
    : `No ${one} of ${source.name} is recorded yet.`;
}

function SampleView({ source }: { source: SourceState }) {
  const { name } = source;
  useEffect(() => {
    looked = name;
    sample.value = null;
    sampleError.value = null;
    sampleNone.value = null;
    channels.value = [];
    channel.value = null;
    void fetchSample(name);
    const timer = setInterval(() => {
      if (running.peek() && !stale.peek() && !document.hidden) void fetchSample(name);
    }, SAMPLE_MS);
    return () => clearInterval(timer);
  }, [name]);
  const got = sample.value?.name === name ? sample.value : null;
  return (
    <section aria-labelledby="sample-title">
      <div class="panel-head">
        <h3 id="sample-title">Sample</h3>
        <label class="switch">
          <input type="checkbox" checked={running.value}
            onChange={(event) => { running.value = event.currentTarget.checked; }} />
          anew every second
        </label>
      </div>
      {channels.value.length > 1 ? <ChannelChoice name={name} /> : null}
      {sampleError.value === null ? null : <p class="error">{sampleError.value}</p>}
      {sampleNone.value === null ? null : <p class="note">{noneWords(source, sampleNone.value)}</p>}
      {got ? <Sampled sample={got} /> : null}
      {got === null && sampleNone.value === null ? <p class="note">Nothing sampled yet.</p> : null}
    </section>
  );
}

function ChannelChoice({ name }: { name: string }) {
  return (
    <label class="switch">
      Channel
      <select
        value={channel.value ?? ""}
        onChange={(event) => {
          channel.value = event.currentTarget.value;
          void fetchSample(name);
        }}
      >
        {channels.value.map((one) => <option key={one} value={one}>{one}</option>)}
      </select>
    </label>
  );
}

function Origin({ sample: got }: { sample: Sample }) {
  const time = got.time === null ? format.UNKNOWN : format.utcMillis(got.time);
  if (got.channel === null) {
    return (
      <p class="note">
        Event {got.event === null ? format.UNKNOWN : format.count(got.event)} at {time} UTC, {format.count(got.total_bytes)} B
      </p>
    );
  }
  const { name, unit, rate_hz, samples, scale, offset } = got.channel;
  const stored = scale === null && offset === null ? "" : `, as stored: times ${format.plain(scale ?? 1)} plus ${format.plain(offset ?? 0)}`;
  return (
    <p class="note">
      {name}, {format.plain(rate_hz)} Hz{unit === "" ? "" : `, in ${unit}`}{stored}: the last {format.many(samples, "sample")} on
      disk, from {time} UTC
    </p>
  );
}

/** Sizes and integers are whole numbers, of others nothing is known. */
function bars({ array, total_bytes }: Sample, { what, edges, counts }: HistogramOf): Bars {
  if (what === "payload_bytes") return evened(edges, counts, [total_bytes]);
  const whole = array !== null && /^u?(int|\d)|^i\d/.test(array.dtype);
  const known = whole ? array.values.filter((value) => value !== null) : [Number.NaN];
  return evened(edges, counts, known);
}

/** Whether it is in the last events, or was not expected there. */
function Answers({ answers }: { answers: SampleAnswer[] }) {
  const words = answersWords(answers);
  return (
    <>
      <h4>In events <span class="note">{words}</span></h4>
      <div class="cells answers" role="img" aria-label={`In events: ${words}`}>
        {answers.map(({ event, answer }, index) => (
          <span key={index} class={`cell answer-${answer}`} title={`event ${format.count(event)}: ${ANSWER_WORDS[answer]}`} />
        ))}
      </div>
    </>
  );
}

function Sampled({ sample: got }: { sample: Sample }) {
  const shown = got.bytes.length / 2;
  const rows = hexRows(got.bytes);
  return (
    <>
      <Origin sample={got} />
      {got.answers.length > 0 ? <Answers answers={got.answers} /> : null}
      {got.histogram ? (
        <Histogram bars={bars(got, got.histogram)}
          unit={got.histogram.what === "payload_bytes" ? "B" : ""}
          label={got.histogram.what === "payload_bytes" ? "Payload, bytes" : "Values"} />
      ) : null}
      {got.array ? (
        <>
          <Line values={got.array.values} label={`Array ${got.array.dtype} [${got.array.shape.join(" × ")}]`} />
          <p class="values figure">
            {got.array.values.slice(0, VALUES_MAX).map(format.plain).join("  ")}
            {got.array.values.length > VALUES_MAX ? " …" : ""}
          </p>
        </>
      ) : null}
      <h4>Bytes {shown < got.total_bytes ? <span class="note">the first {format.count(shown)} of {format.count(got.total_bytes)}</span> : null}</h4>
      <pre class="hex" tabIndex={0} aria-label="Bytes in hexadecimal">
        {rows.map((row) => (
          <span key={row.offset} class="hex-row">
            <span class="hex-offset">{row.offset}</span>{"  "}{row.bytes.padEnd(48)}{"  "}
            <span class="hex-text">{row.text}</span>{"\n"}
          </span>
        ))}
      </pre>
    </>
  );
}

/** How far its times are from those of its events, in the last seconds. */
function OffsetsView({ offsets }: { offsets: Offsets }) {
  const { beyond, bins, bin_ns, count, first_ns } = offsets;
  const edges = Array.from({ length: bins.length + 1 }, (_, bin) => first_ns + bin * bin_ns);
  const ns = (value: number) => format.join(format.nanoseconds(value));
  return (
    <section aria-labelledby="offsets-title">
      <h3 id="offsets-title">Time less its events' times</h3>
      <p class="note">{offsetsWords(offsets)}</p>
      {count > 0 && (
        <Histogram bars={{ edges, heights: bins, total: count, each: "in a bin" }} unit="ns" scale={ns}
          label="Offset" />
      )}
      {beyond.length > 0 && (
        <Histogram bars={beyondBars(beyond)} unit="ns" scale={(edge) => ns(placedNs(edge))}
          label="Around events without it, beyond their window" />
      )}
    </section>
  );
}

function LinkFacts({ link }: { link: LinkState }) {
  const abandoned = abandonedWords(link.abandoned);
  return (
    <>
      <dt>Its front-end keeps data</dt><dd>until they are {link.release === "taken" ? "taken" : "durable"}</dd>
      <dt>Made, taken, durable</dt>
      <dd class="figure">{[link.made, link.taken, link.durable].map(format.count).join(", ")}</dd>
      <dt>From taken to durable</dt>
      <dd class="figure">{untilDurableWords(link)}</dd>
      {abandoned !== "" && <><dt>Abandoned by its front-end</dt><dd class="figure">{abandoned}</dd></>}
    </>
  );
}

function SourceDrawer({ name, source }: { name: string; source: SourceState | undefined }) {
  return (
    <Drawer title={name} close={() => go("sources")}>
      {source ? (
        <>
          <dl class="facts">
            <dt>Status</dt>
            <dd><SourceStatusBadge status={source.status} />{source.astray === null ? "" : ` ${source.astray}`}</dd>
            <dt>Group</dt><dd>{source.group || "none"}, {source.kind}</dd>
            <dt>Receives on</dt>
            <dd>
              {source.address || format.UNKNOWN}
              {source.from.length === 0 ? ", from anywhere" : `, from ${source.from.join(", ")} only`}
            </dd>
            <dt>Rate</dt>
            <dd class="figure">
              {format.join(format.si(source.packets_per_second, ""))} packets/s, {format.join(format.bytesPerSecond(source.bytes_per_second))}
            </dd>
            <dt>Loss</dt><dd class="figure">{format.join(format.perSecond(source.loss_per_second))}</dd>
            <dt>Waiting for others</dt>
            <dd class="figure">{format.count(source.parked_fragments)} fragments</dd>
            {source.link.release !== null && <LinkFacts link={source.link} />}
            {source.link.waits > 0 && (
              <>
                <dt>Others waited for it</dt>
                <dd class="figure">
                  {format.count(source.link.waits)} times, {format.join(format.duration(source.link.waited_ms / 1000))} in all
                </dd>
              </>
            )}
            {source.link.fragments_skew > 0 && (
              <>
                <dt>Not awaited, since its connection was held</dt>
                <dd class="figure">{format.count(source.link.fragments_skew)} fragments</dd>
              </>
            )}
            {source.link.marks_ignored > 0 && (
              <><dt>Marks of other runs</dt><dd class="figure">{format.count(source.link.marks_ignored)}</dd></>
            )}
            <dt>Receive buffer</dt>
            <dd class="figure">{source.fill === null ? format.UNKNOWN : `${format.wholePercent(source.fill)} full`}</dd>
            <dt>Last packet</dt>
            <dd class="figure">
              {source.last_packet_seconds === null ? "never" : `${format.join(format.duration(source.last_packet_seconds))} ago`}
            </dd>
          </dl>
          {source.offsets ? <OffsetsView offsets={source.offsets} /> : null}
          <SampleView source={source} />
          <h3>Ledger of {whichRun()}</h3>
          <LedgerTable counts={source.ledger} />
        </>
      ) : <p>No source of that name.</p>}
    </Drawer>
  );
}

export function SourcesView({ item }: { item: string | null }) {
  const known = sources.value;
  const shown = worstFirst(filtered(known, search.value, status.value));
  return (
    <section class="panel" aria-labelledby="sources-title">
      <div class="panel-head">
        <h2 id="sources-title">
          Sources <span class="note" data-test="source-count">{format.count(shown.length)} of {format.count(known.length)}; worst first</span>
        </h2>
        <div class="filters">
          <label>Name or group{" "}
            <input type="search" value={search.value} onInput={(event) => { search.value = event.currentTarget.value; }} />
          </label>
          <label>Status{" "}
            <select value={status.value} onChange={(event) => { status.value = event.currentTarget.value as SourceStatus; }}>
              {STATUSES.map(([value, words]) => <option key={value} value={value}>{words}</option>)}
            </select>
          </label>
        </div>
      </div>
      <ul class="groups">{groups(known).map((group) => <GroupTile key={group.name} group={group} />)}</ul>
      <SourceTable sources={shown} rows={ROWS} label="Sources" />
      {item === null ? null : <SourceDrawer name={item} source={known.find((source) => source.name === item)} />}
    </section>
  );
}
