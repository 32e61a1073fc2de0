// The runs, newest first, and one of them in a drawer: figures, remarks, ledger, configuration.
import { signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Counts, Quality, Remark, Run, RunLedger, RunPage } from "../api";
import { call, get, reason, text } from "../client";
import * as format from "../format";
import { askStart } from "../parts/control";
import { Emulated } from "../parts/emulated";
import { Icon } from "../parts/icon";
import { LedgerTable } from "../parts/ledger";
import { Drawer, Question, sendByKey } from "../parts/modal";
import { go, link } from "../route";
import { mayOperate, notice, sources, stale, state } from "../store";
import { entryWords, isBad, isLoss, lossOf, runWords, topEntries } from "../words";

const PAGE = 50;
const TYPING_MS = 300;
const REFRESH_MS = 2000;
const QUALITIES: Quality[] = ["unknown", "good", "questionable", "bad", "test"];

const search = signal("");
const quality = signal("");
const list = signal<Run[]>([]);
const next = signal<number | null>(null);
const failed = signal<string | null>(null);
/** Answers may overtake each other; only the newest question's counts. */
let asked = 0;

async function load(before: number | null): Promise<void> {
  asked += 1;
  const mine = asked;
  const query = new URLSearchParams({ limit: String(PAGE) });
  if (before !== null) query.set("before", String(before));
  if (search.peek().trim()) query.set("search", search.peek().trim());
  if (quality.peek()) query.set("quality", quality.peek());
  try {
    const page = await get<RunPage>(`/runs?${query}`);
    if (mine !== asked) return;
    list.value = before === null ? page.runs : [...list.peek(), ...page.runs];
    next.value = page.next;
    failed.value = null;
  } catch (error) {
    if (mine === asked) failed.value = reason(error);
  }
}

export function seconds(run: Run): number | null {
  const current = state.value?.run;
  if (current?.number === run.number) return current.seconds;
  if (run.started === null || run.ended === null) return null;
  return (Date.parse(run.ended) - Date.parse(run.started)) / 1000;
}

export function QualityBadge({ run }: { run: Run }) {
  const icon = run.quality === "good" ? "check" : run.quality === "unknown" ? "never" : "warning";
  const tone = run.quality === "good" ? "good" : run.quality === "unknown" ? "never" : "loss";
  return <span class={`badge status-${tone}`}><Icon name={icon} />{run.quality}</span>;
}

/** The run that is being recorded has the figures of this moment. */
function now(run: Run): Run {
  const current = state.value?.run;
  if (!current || current.number !== run.number) return run;
  const { events, frames, files, bytes_written: bytes } = current;
  const loss_count = state.value?.loss.count ?? run.loss_count;
  const bad_count = state.value?.bad.count ?? run.bad_count;
  return { ...run, events, frames, files, bytes, loss_count, bad_count };
}

function Row({ run: listed }: { run: Run }) {
  const run = now(listed);
  const lost = lossOf(run);
  return (
    <tr onClick={() => go("runs", run.number)}>
      <th scope="row" class="number"><a href={link("runs", run.number)}>{run.number}</a></th>
      <td class="started">
        {run.started === null ? format.UNKNOWN : format.utc(run.started)}
        {run.emulated ? <> <Emulated /></> : null}
      </td>
      <td class="number wide">{format.clock(seconds(run))}</td>
      <td class="number roomy">{format.count(run.events)}</td>
      <td class="number wide">{format.join(format.bytes(run.bytes))}</td>
      <td class={run.loss_count > 0 ? "number is-loss" : "number"} title={lost.title}>
        {lost.text}
      </td>
      <td class="wide">{runWords(run)}</td>
      <td><QualityBadge run={run} /></td>
      <td class="wide">{run.who}</td>
      <td class="wide grow">{run.comment}</td>
    </tr>
  );
}

export function RunsView({ item }: { item: string | null }) {
  const current = state.value?.run?.number ?? null;
  // A run that began or ended changes the list.
  useEffect(() => { void load(null); }, [current, quality.value]);
  useEffect(() => {
    const timer = setTimeout(() => void load(null), TYPING_MS);
    return () => clearTimeout(timer);
  }, [search.value]);
  const number = item === null ? Number.NaN : Number(item);
  return (
    <section class="panel" aria-labelledby="runs-title">
      <div class="panel-head">
        <h2 id="runs-title">Runs <span class="note">newest first; times in UTC</span></h2>
        <div class="filters">
          <label>Search{" "}
            <input type="search" value={search.value} onInput={(event) => { search.value = event.currentTarget.value; }} />
          </label>
          <label>Quality{" "}
            <select value={quality.value} onChange={(event) => { quality.value = event.currentTarget.value; }}>
              <option value="">all</option>
              {QUALITIES.map((name) => <option key={name} value={name}>{name}</option>)}
            </select>
          </label>
        </div>
      </div>
      {failed.value === null ? null : <p class="error">{failed.value}</p>}
      <div class="table-place free" tabIndex={0} role="region" aria-label="Runs">
        <table class="runs">
          <thead>
            <tr>
              <th scope="col" class="number">Run</th>
              <th scope="col">Started</th>
              <th scope="col" class="number wide">Time, h:min:s</th>
              <th scope="col" class="number roomy">Events</th>
              <th scope="col" class="number wide">Data</th>
              <th scope="col" class="number">Lost</th>
              <th scope="col" class="wide">End</th>
              <th scope="col">Quality</th>
              <th scope="col" class="wide">Who</th>
              <th scope="col" class="wide grow">Comment</th>
            </tr>
          </thead>
          <tbody>{list.value.map((run) => <Row key={run.number} run={run} />)}</tbody>
        </table>
        {list.value.length === 0 ? <p class="note empty">No run.</p> : null}
      </div>
      {next.value === null ? null : (
        <p><button type="button" onClick={() => void load(next.value)}>Older runs</button></p>
      )}
      {Number.isInteger(number) ? <RunDrawer key={number} number={number} /> : null}
    </section>
  );
}

const opened = signal<{ run: Run; ledger: RunLedger | null; configuration: string | null } | null>(null);
const openFailed = signal<string | null>(null);

function open(number: number): Promise<void> {
  opened.value = null;
  return refresh(number);
}

/** The newest refresh: what an older one brings later is of no use. */
let refreshes = 0;

async function refresh(number: number): Promise<void> {
  const own = ++refreshes;
  openFailed.value = null;
  try {
    // First: a ledger that is asked for after a run was seen to have ended is its last one.
    const run = await get<Run>(`/runs/${number}`);
    const [ledger, configuration] = await Promise.all([
      get<RunLedger>(`/runs/${number}/ledger`).catch(() => null),
      text(`/runs/${number}/configuration`).catch(() => null),
    ]);
    if (own === refreshes) opened.value = { run, ledger, configuration };
  } catch (error) {
    if (own === refreshes) openFailed.value = reason(error);
  }
}

/** What was written of a run and not saved yet, by its number: it outlives the drawer. */
const drafts = signal<ReadonlyMap<number, string>>(new Map());

function setDraft(number: number, text: string): void {
  const next = new Map(drafts.peek());
  if (text === "") next.delete(number);
  else next.set(number, text);
  drafts.value = next;
}

async function save(run: Run, chosen: string): Promise<void> {
  const remark = (drafts.peek().get(run.number) ?? "").trim();
  const change = { ...(remark === "" ? {} : { remark }), ...(chosen === run.quality ? {} : { quality: chosen }) };
  if (Object.keys(change).length === 0) {
    notice.value = { kind: "done", text: `Run ${run.number}: there is nothing to save.` };
    return;
  }
  try {
    await call<unknown>("PATCH", `/runs/${run.number}`, change);
    const saved = [remark === "" ? "" : "remark", chosen === run.quality ? "" : "quality"];
    notice.value = { kind: "done", text: `Run ${run.number}: ${saved.filter(Boolean).join(" and ")} saved.` };
    setDraft(run.number, "");
    await Promise.all([refresh(run.number), load(null)]);
  } catch (error) {
    notice.value = { kind: "failed", text: `Run ${run.number} was not changed: ${reason(error)}` };
  }
}

/** "anna, stop", or as much of it as is known. */
const author = ({ who, kind }: Remark): string =>
  [who, kind === "remark" ? "" : kind].filter(Boolean).join(", ");

function Remarks({ run }: { run: Run }) {
  const remarks = run.remarks ?? [];
  if (remarks.length === 0) return <p class="note">No remark.</p>;
  return (
    <ol class="remarks" aria-label="Remarks">
      {remarks.map((remark) => (
        <li key={`${remark.time}${remark.kind}${remark.who}${remark.text}`}>
          <span class="note figure">{format.utc(remark.time)} UTC, {author(remark)}</span>
          <p>{remark.text}</p>
        </li>
      ))}
    </ol>
  );
}

function Lossy({ ledger }: { ledger: RunLedger }) {
  const lossy = Object.entries(ledger.sources)
    .map(([name, counts]) => ({ name, lost: Object.fromEntries(Object.entries(counts).filter(([entry]) => isLoss(entry) || isBad(entry))) }))
    .filter(({ lost }) => Object.values(lost).some((value) => value > 0));
  if (lossy.length === 0) return null;
  return (
    <>
      <h4>Sources with loss or bad data</h4>
      <ul class="plain-list">
        {lossy.slice(0, 20).map(({ name, lost }) => (
          <li key={name}>
            <strong>{name}</strong>{" "}
            {topEntries(lost, 3)
              .map(([entry, value]) => `${format.count(value)} ${entryWords(entry)}`).join(", ")}
          </li>
        ))}
        {lossy.length > 20 ? <li>and {lossy.length - 20} more</li> : null}
      </ul>
    </>
  );
}

function Balanced({ ledger, run }: { ledger: RunLedger; run: Run }) {
  if (ledger.balanced === null) {
    const why = run.state === "recording"
      ? "The books are closed when the run ends." : "Whether it balances is in the run's files only.";
    return <span class="note">{why}</span>;
  }
  return ledger.balanced
    ? <span class="badge status-good"><Icon name="check" />balanced: everything is accounted for</span>
    : <span class="badge status-loss"><Icon name="warning" />not balanced: this is a defect of Catchment</span>;
}

function RunDrawer({ number }: { number: number }) {
  useEffect(() => {
    void open(number);
    // A run that goes on has other figures soon, and its ledger when it ends.
    const timer = setInterval(() => {
      if (!stale.peek() && opened.peek()?.run.ended === null) void refresh(number);
    }, REFRESH_MS);
    return () => clearInterval(timer);
  }, [number]);
  const known = opened.value;
  const leaving = useSignal(false);
  const unsaved = (drafts.value.get(number) ?? "").trim() !== "";
  const close = () => {
    if (unsaved) leaving.value = true;
    else go("runs");
  };
  const discard = () => {
    setDraft(number, "");
    go("runs");
  };
  return (
    <Drawer title={`Run ${number}`} close={close}>
      {leaving.value ? (
        <Question title="Discard the remark?" text={`What you wrote of run ${number} is not saved.`}
          yes="Discard" accept={discard} refuse={() => { leaving.value = false; }} />
      ) : null}
      {openFailed.value === null ? null : <p class="error">{openFailed.value}</p>}
      {known?.run.number === number ? <Opened {...known} /> : null}
    </Drawer>
  );
}

/** Why a run did not come to a recording, as far as the node says. */
function Why({ run }: { run: Run }) {
  if (run.reason) return <>: {run.reason}</>;
  return <span class="note">; the <a href={link("logs")}>log</a> says why</span>;
}

/** The books of a run under way are those of the sources now. */
function liveTotals(): Counts {
  const totals: Counts = {};
  for (const { ledger } of sources.value) {
    for (const [entry, value] of Object.entries(ledger)) {
      totals[entry] = (totals[entry] ?? 0) + value;
    }
  }
  return totals;
}

function Opened({ run, ledger, configuration }: { run: Run; ledger: RunLedger | null; configuration: string | null }) {
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget as HTMLFormElement);
    void save(run, String(form.get("quality") ?? run.quality));
  };
  const lost = lossOf(run);
  const live = state.value?.run?.number === run.number;
  const totals = live ? liveTotals() : (ledger?.totals ?? {});
  const startLegal = state.value?.commands.some((known) => known.name === "start") ?? false;
  return (
    <>
      <dl class="facts">
        <dt>End</dt>
        <dd>
          {runWords(run)}
          {run.state === "failed" || run.reason ? <Why run={run} /> : null}
        </dd>
        {run.emulated ? <><dt>Source</dt><dd><Emulated long /></dd></> : null}
        <dt>Started</dt>
        <dd class="figure">
          {run.started === null
            ? `${run.state === "failed" ? "not started" : "not yet"}; asked by ${run.who || "?"}`
            : `${format.utc(run.started)} UTC by ${run.who}`}
        </dd>
        <dt>Ended</dt><dd class="figure">{run.ended === null ? "not yet" : `${format.utc(run.ended)} UTC`}</dd>
        <dt>Events</dt><dd class="figure">{format.count(run.events)}</dd>
        <dt>Data</dt>
        <dd class="figure">
          {format.join(format.bytes(run.bytes))} in {format.many(run.files, "file")}, {format.many(run.frames, "frame")}
        </dd>
        <dt>Lost</dt>
        <dd class="figure" title={lost.title}>
          {run.loss_count > 0 ? <Icon name="warning" /> : null}{lost.text}
          {lost.title === undefined ? null : <span class="note"> or more</span>}
        </dd>
        {run.bad_count > 0 ? (
          <><dt>Bad</dt><dd class="figure"><Icon name="warning" />{format.many(run.bad_count, "recorded fragment")}</dd></>
        ) : null}
        <dt>Folder</dt><dd class="path">{run.folder}</dd>
      </dl>
      <h3>Remarks</h3>
      <Remarks run={run} />
      {mayOperate.value ? (
        <form class="edit" onSubmit={submit} onKeyDown={sendByKey}>
          <label>Quality{" "}
            <select name="quality">
              {QUALITIES.map((name) => (
                <option key={name} value={name} selected={name === run.quality}>{name}</option>
              ))}
            </select>
          </label>
          <label>New remark
            <textarea name="remark" rows={2} maxLength={2000} value={drafts.value.get(run.number) ?? ""}
              onInput={(event) => setDraft(run.number, event.currentTarget.value)} />
          </label>
          <div class="buttons">
            {startLegal && run.configuration !== null ? (
              <button type="button" onClick={() => askStart(run.configuration)}>Start with its configuration</button>
            ) : null}
            <button type="submit" class="go">Save</button>
          </div>
        </form>
      ) : null}
      <h3>Ledger</h3>
      {ledger === null && !live ? <p class="note">No ledger.</p> : (
        <>
          {ledger === null ? null : <p><Balanced ledger={ledger} run={run} /></p>}
          {ledger === null ? null : <Lossy ledger={ledger} />}
          <LedgerTable counts={totals} none={live ? "Nothing counted yet." : undefined} />
        </>
      )}
      <h3>Configuration {run.configuration ?? ""}</h3>
      <pre class="hex" tabIndex={0} aria-label="Configuration">{configuration ?? "Not known."}</pre>
    </>
  );
}
