// The page over a real recorder with emulated sources: started here with CATCHMENT_PROGRAM, or one
// that runs already at CATCHMENT_URL (then without what needs to start, kill or fill something).
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "@playwright/test";
import { answers, fits as fitsAt, freePort, press, verdict } from "./node";
import { misfits } from "./shapes";

const PROGRAM = process.env.CATCHMENT_PROGRAM;
const SOURCES = 4;

test.skip(!PROGRAM && !process.env.CATCHMENT_URL, "CATCHMENT_PROGRAM and CATCHMENT_URL are not set");
test.describe.configure({ mode: "serial" });

let folder = "";
let url = process.env.CATCHMENT_URL ?? "";
let node: ChildProcess | undefined;
const emulators = new Map<number, ChildProcess>();
let send = () => {};

function configuration(runs: string, first: number, only: number | null): string {
  const indices = only === null ? Array.from({ length: SOURCES }, (_, index) => index) : [only];
  const sources = indices.map((index) => `[[sources]]
name = "source-${index}"
group = "group-${index}"
address = "127.0.0.1:${first + index}"
sub_event_id = ${0x8000 + index}
`).join("\n");
  const sizes = indices.map((index) => `[[emulator.sizes]]\ngroup = "group-${index}"\nmean = "400 B"\n`);
  // The node's own file has no emulator: it would be a device of the node, and no source to be
  // killed.
  const emulator = only === null ? "[control]\nstart = \"manual\"\nrequests_per_second = 1000000\n"
    : `[emulator]\nseed = 1\nrate = "200 Hz"\nwater_mark = "4 kB"\n${sizes.join("")}`;
  return `[run]\nfolder = "${runs}"\n\n[memory]\nbudget = "256 MiB"\n\n[frame]\ntime = "200 ms"\n
[build]\ntimeout = "15 s"\n
[write]\nbuffer_bytes = "1 MiB"\npreallocate_bytes = "1 MiB"\nfile_bytes = "1 GiB"\n\n${sources}\n${emulator}`;
}

/** One emulator per source, so that one of them can be killed. */
function emulate(index: number, first: number, runs: string): void {
  const path = join(folder, `source-${index}.toml`);
  writeFileSync(path, configuration(runs, first, index));
  emulators.set(index, spawn(PROGRAM ?? "", ["emulate", path], { stdio: ["ignore", "ignore", "inherit"] }));
}

const fits = (path: string, type: string) => fitsAt(url, path, type);

async function allFit(): Promise<void> {
  await fits("/session", "Session");
  await fits("/state", "State");
  await fits("/history", "History");
  const lists: [string, string, string][] = [
    ["/sources", "sources", "SourceState"], ["/devices", "devices", "Device"],
    ["/alarms", "alarms", "Alarm"], ["/logs", "lines", "LogLine"],
  ];
  for (const [path, list, type] of lists) {
    const answer = await (await fetch(`${url}/api/v1${path}`)).json() as Record<string, unknown[]>;
    for (const one of answer[list] ?? [null]) expect(misfits(one, type), path).toEqual([]);
  }
  const { runs } = await fits("/runs", "RunPage") as { runs: { number: number }[] };
  for (const { number } of runs) {
    await fits(`/runs/${number}`, "Run");
    await fits(`/runs/${number}/ledger`, "RunLedger");
  }
}

test.beforeAll(async () => {
  if (!PROGRAM) return;
  folder = mkdtempSync(join(tmpdir(), "catchment-page-"));
  const runs = join(folder, "runs");
  mkdirSync(runs);
  const ports = await freePort();
  // A run of ports below the ephemeral ones, apart from those of other tests.
  const first = 30_000 + (ports % 500) * 4;
  const listen = `127.0.0.1:${await freePort()}`;
  url = `http://${listen}`;
  const path = join(folder, "node.toml");
  writeFileSync(path, configuration(runs, first, null));
  node = spawn(PROGRAM, ["run", path, "--listen", listen], { stdio: ["ignore", "ignore", "inherit"] });
  await expect.poll(() => answers(url)).toBe(true);
  // Later than the run begins: of what sends already the first events have not come from all. Each
  // is a process of its own, which may start or be held up seconds after the others
  // (`build.timeout`).
  send = () => {
    for (let index = 0; index < SOURCES; index += 1) emulate(index, first, runs);
  };
});

test.afterAll(() => {
  for (const emulator of emulators.values()) emulator.kill("SIGTERM");
  node?.kill("SIGTERM");
  if (folder !== "") {
    try {
      execFileSync("umount", ["--lazy", join(folder, "runs")], { stdio: "ignore" });
    } catch {
      // Nothing was mounted.
    }
    // The node still ends.
    rmSync(folder, { recursive: true, force: true, maxRetries: 50 });
  }
});

test("a run is started and its rates are those of the sources", async ({ page }) => {
  await page.goto(url);
  await expect(verdict(page)).toContainText("no run");
  await allFit();
  await press(page, "Start run");
  if (PROGRAM) await expect(verdict(page)).toContainText("no data");
  send();
  await expect(verdict(page)).toHaveAttribute("data-level", "good");
  // How fast it can be is a matter of the machine.
  await expect(page.locator(".tile", { hasText: "Event rate" })).toContainText(/[1-9][\d.]*\s*k?\/s/);
  await expect(page.locator(".tile", { hasText: "Lost" })).toContainText("nothing lost in this run");
  await allFit();
  await fits("/sources/source-1/sample", "Sample");
});

test("a source is opened: its rates and a sample of what it sends", async ({ page }) => {
  await page.goto(`${url}/#/sources/source-1`);
  const drawer = page.getByRole("dialog", { name: "source-1" });
  await expect(drawer.locator(".hex-row").first()).toContainText("000000");
  await expect(drawer.getByRole("img", { name: /Payload/ })).toBeVisible();
  await expect(drawer.locator(".ledger")).toContainText("fragments recorded");
});

test("a killed source changes the verdict, raises an alarm and stands first", async ({ page }) => {
  test.skip(!PROGRAM, "the emulators are somebody else's");
  await page.goto(url);
  emulators.get(2)?.kill("SIGKILL");
  await expect(verdict(page)).toHaveAttribute("data-level", /^(heavy_)?loss$/);
  await expect(verdict(page)).toContainText("source-2");
  await expect(page.locator(".alarm", { hasText: "source-2" })).toContainText("silent");
  await expect(page.locator("table.sources tbody tr").first()).toContainText("source-2");
  await allFit();
  const silent = page.locator(".alarm", { hasText: "source-2" });
  await silent.getByRole("button", { name: /^Acknowledge/ }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Acknowledge" }).click();
  await expect(silent).toContainText("acknowledged by local");
});

test("a run is stopped and opened with its ledger", async ({ page }) => {
  await page.goto(url);
  await press(page, "Stop run");
  await expect(verdict(page)).toHaveAttribute("data-level", "not_recording");
  await page.goto(`${url}/#/runs`);
  await page.locator("table.runs tbody a").first().click();
  const drawer = page.getByRole("dialog");
  await expect(drawer).toContainText("fragments recorded");
  await expect(drawer).toContainText("balanced: everything is accounted for");
  await expect(drawer).toContainText("source-2");
  await expect(drawer.locator("pre")).toContainText("[[sources]]");
  await drawer.getByLabel("Quality").selectOption("bad");
  await drawer.getByRole("button", { name: "Save" }).click();
  await expect(page.locator(".notice")).toContainText("quality saved");
  await expect(page.locator("table.runs tbody tr").first()).toContainText("bad");
  await allFit();
});

test("a full disk is told as the reason why nothing is recorded", async ({ page }) => {
  test.skip(!PROGRAM || process.getuid?.() !== 0, "a small file system needs root");
  // Laid over the folder before the next run begins: nothing of the old one is open any more.
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=16m", "tmpfs", join(folder, "runs")], { stdio: "ignore" });
  } catch {
    test.skip(true, "no file system may be mounted here");
  }
  await page.goto(url);
  await press(page, "Start run");
  // It records, without the source that was killed; then somebody else takes what room there is.
  await expect(verdict(page)).toHaveAttribute("data-level", /^(heavy_)?loss$/);
  expect(() => writeFileSync(join(folder, "runs", "filler"), Buffer.alloc(64 << 20))).toThrow("ENOSPC");
  const full = page.locator('.verdict[data-level="not_recording"]');
  await expect(full.filter({ hasText: /disk full: make room/ })).toBeVisible();
  await fits("/state", "State");
});

test("a node that is killed leaves the veil", async ({ page }) => {
  test.skip(!PROGRAM, "the node is somebody else's");
  await page.goto(url);
  await expect(verdict(page)).toBeVisible();
  node?.kill("SIGKILL");
  await expect(page.getByRole("alertdialog", { name: "Stale" })).toBeVisible();
});
