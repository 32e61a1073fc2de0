// What the page says, and that it says nothing when it knows nothing.
import { expect, test } from "@playwright/test";
import { complaints, open, post } from "./page";

const VERDICTS: [string, string, string | RegExp, string][] = [
  ["good", "good", "Recording good data", "no loss in the last 60 s"],
  ["frozen", "held", "Recording, but held up", "the disk has completed no write for 2 s"],
  ["loss", "loss", /Recording with loss/, "medium-07: 1,860 lost in the last minute"],
  ["bad", "bad_data", /Recording, (but 1.10.% of the data are bad|with bad data)/, "small-05: 3,709 bad in the last minute"],
  ["heavy", "heavy_loss", /Losing/, "small-00: 2,248,410 lost in the last minute"],
  ["silent", "loss", "Recording with loss", "large-03: silent for 47 s"],
  ["idle", "not_recording", "Not recording", "no run"],
  ["fault", "not_recording", "Not recording", "disk full"],
  ["quiet", "not_recording", "Not recording", "no data from any source for 12 s"],
];

for (const [scenario, level, words, why] of VERDICTS) {
  test(`scenario ${scenario} is told in words, with the reason`, async ({ page }) => {
    const found = complaints(page);
    await open(page, scenario);
    const verdict = page.locator(".verdict");
    await expect(verdict).toHaveAttribute("data-level", level);
    await expect(verdict.getByRole("heading")).toHaveText(words);
    await expect(verdict).toContainText(why);
    await expect(page).toHaveTitle(new RegExp(words));
    expect(found).toEqual([]);
  });
}

test("paths of a fault are folded away behind what can be done", async ({ page }) => {
  await open(page, "full");
  const verdict = page.locator(".verdict");
  const lines = verdict.locator(".verdict-text > ul > li");
  await expect(lines).toHaveText([
    "disk full: make room, and recording resumes by itself",
    "data arrive but cannot be written to the disk",
  ]);
  const details = verdict.locator("details");
  await expect(details.getByRole("listitem")).toBeHidden();
  await details.locator("summary").click();
  await expect(details.getByRole("listitem")).toContainText("/data/runs/run-20261121-075912");
  // The only line keeps the end of its path.
  await open(page, "fault");
  const short = "fault: node/recorder/write: disk full: …/runs has 0 B free";
  await expect(lines.first()).toHaveText(short);
});

test("without a run no source needs attention, and the last run says what it came to", async ({ page }) => {
  await open(page, "idle");
  await expect(page.locator("#sources-title")).toContainText("0 of 90 sources need attention");
  await expect(page.getByText("60 sources: 60 not receiving, no run")).toBeVisible();
  await expect(page.locator(".last-run")).toContainText("Last run: 318, complete");
});

test("without a run nothing stands there that has no value", async ({ page }) => {
  await open(page, "idle");
  await expect(page.locator(".tile dt")).toHaveText(["Data in", "Disk free"]);
  await expect(page.locator(".tiles")).not.toContainText("–");
  await expect(page.getByRole("heading", { name: /^Flow/ })).toHaveCount(0);
  const columns = page.getByRole("columnheader", { name: /^Lost or bad in/ });
  await expect(columns).toHaveText("Lost or bad in the last run");
  await open(page, "good");
  await expect(page.locator(".tile")).toHaveCount(8);
  await expect(columns).toHaveText("Lost or bad in this run");
});

test("a node of channels has frames and packets, and no events", async ({ page }) => {
  await open(page, "links");
  await expect(page.locator(".tile dt")).toContainText(["Run", "Time", "Frames", "Packets in"]);
  await expect(page.locator(".tile", { hasText: "Packets in" })).toContainText("from 90 links");
  await expect(page.locator(".tiles")).not.toContainText("Event");
  await expect(page.locator(".plot strong").first()).toHaveText("Slice rate");
});

test("a run that has just begun is no alarm", async ({ page }) => {
  await open(page, "young");
  const verdict = page.locator(".verdict");
  await expect(verdict.getByRole("heading")).toHaveText("Beginning to record");
  await expect(verdict).toContainText("the first data are on their way");
  await expect(page).toHaveTitle(/^… Beginning to record, run 318/);
  const calm = await verdict.evaluate((one) => getComputedStyle(one).backgroundColor);
  await open(page, "quiet");
  await expect(verdict).toContainText("no data from any source");
  const red = await verdict.evaluate((one) => getComputedStyle(one).backgroundColor);
  expect(calm).not.toBe(red);
});

test("more tabs than a browser has connections are all told", async ({ context }) => {
  const tabs = await Promise.all(Array.from({ length: 9 }, () => context.newPage()));
  for (const tab of tabs) {
    await open(tab, "good");
    await expect(tab.locator(".verdict")).toHaveAttribute("data-level", "good");
  }
  // Those that were opened first are still told what happens.
  const [first, ...others] = tabs;
  for (const tab of others) await tab.close();
  if (first) await expect(first.locator(".veil")).toHaveCount(0);
});

test("emulated data are never taken for a detector's", async ({ page }) => {
  await open(page, "emulated");
  await expect(page.locator("header.top")).toContainText("EMULATED");
  await expect(page.locator(".verdict")).toContainText("EMULATED no detector sends these data");
  await page.getByRole("button", { name: "Stop run" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Stop run" }).click();
  // What the node sends when it is started next stays said.
  await expect(page.locator(".verdict")).toHaveAttribute("data-level", "not_recording");
  await expect(page.locator(".verdict")).toContainText("EMULATED");
  await page.getByRole("link", { name: "Runs", exact: true }).click();
  const rows = page.locator("table.runs tbody tr");
  await expect(rows.nth(0)).toContainText("EMULATED");
  await expect(rows.filter({ hasText: "EMULATED" })).toHaveCount(2);
  await page.getByRole("link", { name: "318" }).click();
  await expect(page.getByRole("dialog", { name: "Run 318" })).toContainText("EMULATED");
  await open(page, "good");
  await expect(page.locator("header.top")).not.toContainText("EMULATED");
  await expect(page.locator(".verdict")).not.toContainText("EMULATED");
});

test("the share that is lost stands in the largest words, and where it is large they are red", async ({ page }) => {
  await open(page, "loss");
  const verdict = page.locator(".verdict");
  await expect(verdict.getByRole("heading")).toHaveText(/^Recording with loss, 0.34\s% of the data$/);
  const yellow = await verdict.evaluate((one) => getComputedStyle(one).backgroundColor);
  await open(page, "heavy");
  await expect(verdict.getByRole("heading")).toHaveText(/^Losing 91.2\s% of the data$/);
  const heavy = await verdict.evaluate((one) => getComputedStyle(one).backgroundColor);
  await open(page, "quiet");
  await expect(verdict).toHaveAttribute("data-level", "not_recording");
  expect(heavy).toBe(await verdict.evaluate((one) => getComputedStyle(one).backgroundColor));
  expect(heavy).not.toBe(yellow);
});

test("a change of the verdict is read out once, not each figure", async ({ page }) => {
  await open(page, "good");
  const announcer = page.locator("[data-test=announcer]");
  await expect(announcer).toHaveText("Recording good data");
  await post(page, "set?scenario=loss");
  await expect(announcer).toHaveText(/^Recording with loss: medium-07/);
});

test("the veil is up within three seconds of silence, over a dialog too, and goes when word comes", async ({ page }) => {
  await page.clock.install();
  await open(page, "good");
  await page.getByRole("button", { name: "Stop run" }).click();
  await post(page, "mute");
  // The page's clock is moved on instead of waited for.
  await page.clock.fastForward(2900);
  const veil = page.getByRole("alertdialog", { name: "Stale" });
  await expect(veil).toBeVisible();
  // On top of the dialog: the point in the middle belongs to the veil.
  const onTop = await page.evaluate(() => document.elementFromPoint(700, 450)?.closest("dialog")?.className);
  expect(onTop).toBe("veil");
  await expect(page).toHaveTitle(/No connection/);
  await page.keyboard.press("Escape");
  await page.keyboard.press("Escape");
  await expect(veil).toBeVisible();
  await post(page, "heal");
  await expect(veil).toBeHidden();
  await expect(page).toHaveTitle(/Recording good data/);
});

test("a node that is gone is tried again until it is back", async ({ page }) => {
  await open(page, "good");
  await post(page, "cut");
  await expect(page.getByRole("alertdialog")).toBeVisible();
  await expect(page.getByRole("alertdialog")).toContainText(/Next try in|Trying/);
  await post(page, "heal");
  // It may be back by itself before anybody has clicked.
  const hidden = expect(page.getByRole("alertdialog")).toBeHidden();
  await Promise.race([hidden, page.getByRole("button", { name: "Try now" }).click().catch(() => undefined)]);
  await hidden;
});

test("figures that change move nothing", async ({ page }) => {
  await open(page, "good");
  await page.waitForLoadState("load");
  await expect(page.locator(".plot-place canvas").first()).toBeVisible();
  // Letters that come late are another matter.
  await page.evaluate(() => document.fonts.ready);
  const shift = await page.evaluate(async () => {
    let total = 0;
    let updates = 0;
    const watch = new PerformanceObserver((list) => {
      for (const entry of list.getEntries()) total += (entry as unknown as { value: number }).value;
    });
    watch.observe({ type: "layout-shift" });
    await new Promise<void>((resolve) => {
      const clock = document.querySelector(".tiles");
      if (!clock) throw new Error("no tiles");
      new MutationObserver(() => { updates += 1; if (updates > 8) resolve(); })
        .observe(clock, { subtree: true, characterData: true, childList: true });
    });
    return total;
  });
  expect(shift).toBeLessThan(0.001);
});
