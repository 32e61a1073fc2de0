// The page over a real recorder and a front-end, which clients/c/tests/driver.c is: it obeys lines.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, test } from "@playwright/test";
import { answers, fits, freePort, press } from "./node";

const PROGRAM = process.env.CATCHMENT_PROGRAM;
const CLIENT = join(import.meta.dirname, "../../../clients/c");

test.skip(!PROGRAM, "CATCHMENT_PROGRAM is not set");
test.describe.configure({ mode: "serial" });

let folder = "";
let url = "";
let node: ChildProcess | undefined;
let camera: ChildProcess | undefined;
let lines: AsyncIterator<string>;

/** The front-end's answer to a line, or to its start. */
async function tell(line?: string): Promise<Record<string, unknown>> {
  if (line !== undefined) camera?.stdin?.write(`${line}\n`);
  return JSON.parse((await lines.next()).value as string) as Record<string, unknown>;
}

test.beforeAll(async () => {
  if (!PROGRAM) return;
  folder = mkdtempSync(join(tmpdir(), "catchment-front-end-"));
  const [listen, links] = [`127.0.0.1:${await freePort()}`, `127.0.0.1:${await freePort()}`];
  url = `http://${listen}`;
  const path = join(folder, "node.toml");
  // All of the run stands in one frame, cut when the run ends.
  writeFileSync(path, `[run]\nfolder = "${join(folder, "runs")}"\n[memory]\nbudget = "256 MiB"
[control]\nstart = "manual"\nrequests_per_second = 1000000\n[build]\ntimeout = "1 h"\n[frame]\ntime = "1 h"
[write]\nbuffer_bytes = "1 MiB"\npreallocate_bytes = "1 MiB"\n[[listen]]\naddress = "${links}"
[[sources]]\nname = "camera/left"\nvia = "link"\n[[sources]]\nname = "camera/right"\nvia = "link"\n`);
  node = spawn(PROGRAM, ["run", path, "--listen", listen], { stdio: ["ignore", "ignore", "inherit"] });
  await expect.poll(() => answers(url)).toBe(true);
  const program = join(folder, "driver");
  const files = ["tests/driver.c", "catchment.c"].map((name) => join(CLIENT, name));
  execFileSync("cc", ["-O1", `-I${CLIENT}`, ...files, "-lpthread", "-o", program]);
  await fetch(`${url}/api/v1/commands`, {
    method: "POST", headers: { "content-type": "application/json" },
    body: JSON.stringify({ request: "listen", command: "configure" }),
  });
  const options = ["sources=left,right", "release=2", "connect_ms=600000"];
  const front_end = spawn(program, [`catchment+tcp://${links}`, "camera", ...options], { stdio: ["pipe", "pipe", "inherit"] });
  camera = front_end;
  lines = createInterface({ input: front_end.stdout })[Symbol.asyncIterator]();
  expect(await tell()).toEqual({ result: 0, error: "" });
});

test.afterAll(() => {
  camera?.kill("SIGKILL");
  node?.kill("SIGTERM");
  // The node still ends.
  if (folder !== "") rmSync(folder, { recursive: true, force: true, maxRetries: 50 });
});

test("a setting is changed from the page and reaches the front-end", async ({ page }) => {
  await tell("setting gain 2");
  await tell("counter triggers 1017");
  await page.goto(`${url}/#/devices`);
  const devices = page.getByRole("region", { name: "Devices" });
  await devices.getByRole("button", { name: "Set gain of node/front_ends/camera" }).click();
  const dialog = page.getByRole("dialog", { name: "Set gain of node/front_ends/camera" });
  await dialog.getByLabel("a setting").fill("7.5");
  await dialog.getByRole("button", { name: "Set", exact: true }).click();
  await expect(dialog).toBeHidden();
  const { commands } = await tell("commands");
  expect((commands as string[]).filter((one) => one.startsWith("gain=")).map((one) => Number(one.slice(5)))).toEqual([7.5]);
  const shown = (name: string) => devices.locator("dt", { hasText: new RegExp(`^${name}$`) }).locator("+ dd");
  await expect(shown("gain")).toContainText("7.5");
  await expect(shown("triggers")).toContainText(/1.?017/);
});

test("an alarm of a front-end stands on the page by its name", async ({ page }) => {
  await page.goto(url);
  await tell("alarm hot");
  await expect(page.locator(".alarm", { hasText: "Front-end camera (hot) raises an alarm" })).toBeVisible();
});

test("until when it keeps data is shown, and in which events a source is", async ({ page }) => {
  await page.goto(url);
  await press(page, "Start run");
  await expect(page.locator("[data-test=state]")).toHaveText("recording");
  for (const line of ["each 0 20 100", "send 0 10 100", "abandon 1 10 3", "each 0 1 100"]) {
    expect(await tell(line), line).toMatchObject({ result: 0 });
  }
  await page.goto(`${url}/#/sources/camera%2Fright`);
  const drawer = page.getByRole("dialog", { name: "camera/right" });
  const fact = (name: string) => drawer.locator("dt", { hasText: name }).locator("+ dd");
  await expect(fact("Its front-end keeps data")).toHaveText("until they are taken");
  await expect(fact("Abandoned by its front-end")).toHaveText("10 (busy)");
  await press(page, "Stop run");
  await expect(drawer.getByRole("img", { name: "In events: last 31 events: 21 there, 10 absent" })).toBeVisible();
  await fits(url, "/sources/camera%2Fright/sample", "Sample");
});
