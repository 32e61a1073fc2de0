// What a storage node has: its newest runs, and the files of one of them.
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { StoredFile, StoredFiles, StoredList, StoredRun } from "../api";
import { get, reason } from "../client";
import * as format from "../format";
import { newestFiles } from "../order";
import { stale } from "../store";
import { streamsWords, writtenWords } from "../words";

const RUNS = 20;
const FILES = 50;
const REFRESH_MS = 10_000;

const list = signal<StoredList | null>(null);
const opened = signal<StoredFiles | null>(null);
const failed = signal<string | null>(null);

async function load(): Promise<void> {
  try {
    list.value = await get<StoredList>(`/stored?newest=true&limit=${RUNS}`);
    const name = opened.peek()?.name;
    if (name !== undefined) await open(name);
    failed.value = null;
  } catch (error) {
    failed.value = reason(error);
  }
}

async function open(name: string): Promise<void> {
  const files = await get<StoredFiles>(`/stored/${encodeURIComponent(name)}`);
  // Another one may have been opened, or this one closed, while the answer came.
  if (opened.peek()?.name === name) opened.value = files;
}

function choose(name: string): void {
  const isOpen = opened.peek()?.name === name;
  opened.value = isOpen ? null : { name, files: [] };
  if (!isOpen) void open(name).catch((error: unknown) => { failed.value = reason(error); });
}

function FileRow({ run, file }: { run: string; file: StoredFile }) {
  return (
    <tr>
      <th scope="row" class="path">{file.name}</th>
      <td class="wide">{run}</td>
      <td class="number">{file.stream}</td>
      <td class="number">{format.join(format.bytes(file.bytes))}</td>
      <td>{writtenWords(file.being_written ? 1 : 0, 1)}</td>
    </tr>
  );
}

function Files({ run }: { run: StoredFiles }) {
  const shown = newestFiles(run.files, FILES);
  const more = run.files.length - shown.length;
  return (
    <section aria-labelledby="files-title">
      <h3 id="files-title">
        Files of {run.name}{" "}
        <span class="note">{more > 0 ? `the last ${shown.length} of ${format.count(run.files.length)}` : format.many(run.files.length, "file")}</span>
      </h3>
      <div class="table-place">
        <table class="sources stored-files">
          <thead>
            <tr>
              <th scope="col">File</th>
              <th scope="col" class="wide">Run</th>
              <th scope="col" class="number">Stream</th>
              <th scope="col" class="number">Size</th>
              <th scope="col">State</th>
            </tr>
          </thead>
          <tbody>{shown.map((file) => <FileRow key={`${file.folder}/${file.name}`} run={run.name} file={file} />)}</tbody>
        </table>
      </div>
    </section>
  );
}

function RunRow({ run }: { run: StoredRun }) {
  const isOpen = opened.value?.name === run.name;
  return (
    <tr>
      <th scope="row" class="path">
        <button type="button" aria-expanded={isOpen} onClick={() => choose(run.name)}>{run.name}</button>
      </th>
      <td class="number">{streamsWords(run.streams)}</td>
      <td class="number">{format.count(run.files)}</td>
      <td class="number">{format.join(format.bytes(run.bytes))}</td>
      <td>{writtenWords(run.being_written, run.files)}</td>
    </tr>
  );
}

/** `streams`: what recorders send changes the list. */
export function Stored({ streams }: { streams: number }) {
  const known = !stale.value;
  useEffect(() => {
    if (!known) return undefined;
    void load();
    const timer = setInterval(() => void load(), REFRESH_MS);
    return () => clearInterval(timer);
  }, [known, streams]);
  const { runs, total } = list.value ?? { runs: [], total: 0 };
  const shown = total > runs.length ? `the newest ${runs.length} of ${format.many(total, "run")}` : format.many(total, "run");
  return (
    <section class="panel" aria-labelledby="stored-title">
      <h2 id="stored-title">Stored runs <span class="note">{list.value === null ? "" : shown}</span></h2>
      {failed.value === null ? null : <p class="error">{failed.value}</p>}
      {runs.length === 0 ? <p class="calm-line">{list.value === null ? "Not known yet." : "The node has no files."}</p> : (
        <div class="table-place">
          <table class="sources stored-runs">
            <thead>
              <tr>
                <th scope="col">Run</th>
                <th scope="col" class="number">Streams</th>
                <th scope="col" class="number">Files</th>
                <th scope="col" class="number">Size</th>
                <th scope="col">State</th>
              </tr>
            </thead>
            <tbody>{runs.map((run) => <RunRow key={run.name} run={run} />)}</tbody>
          </table>
        </div>
      )}
      {opened.value === null ? null : <Files run={opened.value} />}
    </section>
  );
}
