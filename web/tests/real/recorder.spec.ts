// The page over a real recorder with emulated sources: started here with CATCHMENT_PROGRAM, or one that
// runs already at CATCHMENT_URL (then without what needs to start, kill or fill something).
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Page, expect, test } from "@playwright/test";

const PROGRAM = process.env.CATCHMENT_PROGRAM;
const SOURCES = 4;

test.skip(!PROGRAM && !process.env.CATCHMENT_URL, "CATCHMENT_PROGRAM and CATCHMENT_URL are not set");
test.describe.configure({ mode: "serial" });

let folder = "";
let url = process.env.CATCHMENT_URL ?? "";
let node: ChildProcess | undefined;
const emulators = new Map<number, ChildProcess>();

async function freePort(): Promise<number> {
  return await new Promise((resolve, reject) => {
    const server = createServer().on("error", reject).listen(0, "127.0.0.1", () => {
      const address = server.address();
      const port = typeof address === "object" && address ? address.port : 0;
      server.close(() => resolve(port));
    });
  });
}

function configuration(runs: string, first: number, only: number | null): string {
  const indices = only === null ? Array.from({ length: SOURCES }, (_, index) => index) : [only];
  const sources = indices.map((index) => `[[source_groups]]
group = "group-${index}"
count = 1
name = "source-${index}"
address = "127.0.0.1:${first + index}"
first_sub_event_id = ${0x8000 + index}
`).join("\n");
  return `[run]\nfolder = "${runs}"\n\n[memory]\nbudget = "256 MiB"\n\n[write]\npreallocate_bytes = "16 MiB"
file_bytes = "1 GiB"\n\n${sources}
[emulator]\nseed = 1\nrate = "1 kHz"\nwater_mark = "4 kB"\n`;
}

/** One emulator per source, so that one of them can be killed. */
function emulate(index: number, first: number, runs: string): void {
  const path = join(folder, `source-${index}.toml`);
  writeFileSync(path, configuration(runs, first, index));
  emulators.set(index, spawn(PROGRAM ?? "", ["emulate", path], { stdio: "ignore" }));
}

async function answers(): Promise<boolean> {
  return await fetch(`${url}/healthz`).then((response) => response.ok, () => false);
}

const verdict = (page: Page) => page.locator(".verdict");

async function press(page: Page, name: string): Promise<void> {
  await page.getByRole("group", { name: "Run control" }).getByRole("button", { name }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name }).click();
}

test.beforeAll(async () => {
  if (!PROGRAM) return;
  folder = mkdtempSync(join(tmpdir(), "catchment-page-"));
  const runs = join(folder, "runs");
  mkdirSync(runs);
  const ports = await freePort();
  // A run of ports below the ephemeral ones, apart from those of other tests.
  const first = 21_000 + (ports % 2000) * 4;
  const listen = `127.0.0.1:${await freePort()}`;
  url = `http://${listen}`;
  const path = join(folder, "node.toml");
  writeFileSync(path, `${configuration(runs, first, null)}\n[control]\nstart = "manual"\n`);
  node = spawn(PROGRAM, ["run", path, "--listen", listen], { stdio: "inherit" });
  await expect.poll(answers, { timeout: 30_000 }).toBe(true);
  for (let index = 0; index < SOURCES; index += 1) emulate(index, first, runs);
});

test.afterAll(() => {
  for (const emulator of emulators.values()) emulator.kill("SIGTERM");
  node?.kill("SIGTERM");
  if (folder !== "") {
    try {
      execFileSync("umount", [join(folder, "runs")], { stdio: "ignore" });
    } catch {
      // Nothing was mounted.
    }
    rmSync(folder, { recursive: true, force: true });
  }
});

test("a run is started and its rates are those of the sources", async ({ page }) => {
  await page.goto(url);
  await expect(verdict(page)).toContainText("no run");
  await press(page, "Start run");
  await expect(verdict(page)).toHaveAttribute("data-level", "good", { timeout: 30_000 });
  await expect(page.locator(".tile", { hasText: "Event rate" })).toContainText(/(9\d\d\s*\/s|1\.0\d\s*k\/s)/);
  await expect(page.locator(".tile", { hasText: "Lost" })).toContainText("nothing lost in this run");
});

test("a killed source changes the verdict, raises an alarm and stands first", async ({ page }) => {
  test.skip(!PROGRAM, "the emulators are somebody else's");
  await page.goto(url);
  emulators.get(2)?.kill("SIGKILL");
  await expect(verdict(page)).toHaveAttribute("data-level", "loss", { timeout: 30_000 });
  await expect(verdict(page)).toContainText("source-2");
  await expect(page.locator(".alarm").first()).toContainText(/source-2|silent/i);
  await expect(page.locator("table.sources tbody tr").first()).toContainText("source-2");
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
});

test("a full disk is told as the reason why nothing is recorded", async ({ page }) => {
  test.skip(!PROGRAM || process.getuid?.() !== 0, "a small file system needs root");
  // Laid over the folder before the next run begins: nothing of the old one is open any more.
  try {
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=24m", "tmpfs", join(folder, "runs")], { stdio: "ignore" });
  } catch {
    test.skip(true, "no file system may be mounted here");
  }
  await page.goto(url);
  await press(page, "Start run");
  await expect(verdict(page)).toHaveAttribute("data-level", "not_recording", { timeout: 60_000 });
  await expect(verdict(page)).toContainText(/disk|space/i);
});

test("a node that is killed leaves the veil", async ({ page }) => {
  test.skip(!PROGRAM, "the node is somebody else's");
  await page.goto(url);
  await expect(verdict(page)).toBeVisible();
  node?.kill("SIGKILL");
  await expect(page.getByRole("alertdialog", { name: "Stale" })).toBeVisible();
});
