// Sources, alarms, runs, logs; telephones; colours; accessibility.
import AxeBuilder from "@axe-core/playwright";
import { expect, test } from "@playwright/test";
import { complaints, open, post } from "./page";

test("alarms are acknowledged with a word on what is being done", async ({ page }) => {
  await open(page, "alarms");
  await expect(page.locator(".alarm").first()).toContainText("Disk is nearly full");
  await expect(page.locator("nav .count")).toHaveText("3");
  await page.getByRole("button", { name: "Acknowledge: Disk is nearly full" }).click();
  await page.keyboard.type("expert called");
  await page.getByRole("dialog").getByRole("button", { name: "Acknowledge" }).click();
  await expect(page.locator("nav .count")).toHaveText("2");
  await expect(page.getByRole("button", { name: "Acknowledge: Disk is nearly full" })).toHaveCount(0);
  await expect(page.locator(".alarm").last()).toContainText("acknowledged by anna");
});

test("an alarm that is over was acknowledged, and cleared by nobody", async ({ page }) => {
  await open(page, "alarms", "#/alarms");
  const alarm = page.locator(".alarm", { hasText: "Disk is nearly full" });
  await alarm.getByRole("button", { name: /^Acknowledge/ }).click();
  await page.keyboard.press("Control+Enter");
  await expect(alarm).toContainText("acknowledged by anna · since");
  await post(page, "set?scenario=good");
  await expect(alarm).toContainText("cleared, acknowledged by anna · from");
  await expect(page.getByText("cleared by")).toHaveCount(0);
});

test("an alarm of many sources has their list, and all alarms are acknowledged at once", async ({ page }) => {
  await open(page, "heavy", "#/alarms");
  const many = page.locator(".alarm", { hasText: "sources in small are silent" });
  await many.locator("summary").click();
  await expect(many.locator("details a").first()).toHaveText("small-00");
  await page.getByRole("button", { name: "Acknowledge all 2" }).click();
  await page.keyboard.type("network group called");
  await page.getByRole("dialog").getByRole("button", { name: "Acknowledge" }).click();
  await expect(page.locator(".alarm", { hasText: "acknowledged by anna" })).toHaveCount(2);
  await expect(page.getByRole("button", { name: /^Acknowledge/ })).toHaveCount(0);
});

test("the bottleneck of the flow is marked with a word", async ({ page }) => {
  await open(page, "alarms");
  await expect(page.locator(".bottleneck")).toContainText("write");
  await expect(page.locator(".bottleneck")).toContainText("bottleneck");
});

test("a thousand sources are in the table, few of them in the document, the worst on top", async ({ page }) => {
  await open(page, "silent", "#/sources", "&sources=1000");
  await expect(page.locator("[data-test=source-count]")).toContainText("1,000 of 1,000");
  const rows = page.locator("table.sources tbody tr:not(.spacer)");
  expect(await rows.count()).toBeLessThan(50);
  await page.locator(".table-place").evaluate((place) => { place.scrollTop = place.scrollHeight; });
  await expect(page.locator("table.sources tr[aria-rowindex='1001']")).toBeVisible();
  await page.getByLabel("Name or group").fill("large 007");
  await expect(rows).toHaveCount(1);
  await expect(rows.first()).toContainText("large-007");
});

test("a source is opened: its sample, its histogram, its ledger", async ({ page }) => {
  const found = complaints(page);
  await open(page, "silent", "#/sources");
  const first = page.locator("table.sources tbody tr").first();
  await expect(first).toContainText("large-03");
  await first.click();
  const drawer = page.getByRole("dialog", { name: "large-03" });
  await expect(drawer.getByRole("img", { name: /Payload/ })).toBeVisible();
  await expect(drawer.getByText("Array uint16 [256]")).toBeVisible();
  await expect(drawer.locator(".hex-row").first()).toContainText("000000");
  await expect(drawer.locator(".ledger")).toContainText("missing fragments");
  const offset = 'Suggested: time_offset = "-?\\d+ ns"\\.';
  const width = 'build\\.time\\.window = "\\d+ ns" holds 99\\.9 % of each\\.';
  const suggested = new RegExp(`${offset} With those of all sources ${width}`);
  await expect(drawer.getByText(suggested)).toBeVisible();
  await page.keyboard.press("Escape");
  await expect(drawer).toHaveCount(0);
  expect(found).toEqual([]);
});

test("of a link one of its channels is shown, and another can be chosen", async ({ page }) => {
  const found = complaints(page);
  const asked: (string | null)[] = [];
  await page.route("**/sources/large-03/sample*", async (route) => {
    const wanted = new URL(route.request().url()).searchParams.get("channel");
    asked.push(wanted);
    const name = wanted ?? "L1:FAST-0000";
    await route.fulfill({ json: {
      name: "large-03", event: null, time: "2026-11-21T12:00:00.000Z", bytes: "0000803f", total_bytes: 4,
      array: { dtype: "f32", shape: [3], values: [1, null, 2.5] },
      histogram: { what: "value", edges: [1, 2, 3], counts: [1, 1] }, answers: [],
      channel: {
        name, unit: "strain", scale: null, offset: null, rate_hz: 16384, first_sample: 7, samples: 3,
        channel_count: 2, channels: wanted === null ? ["L1:FAST-0000", "L1:SLOW-0001"] : [],
      },
    } });
  });
  await open(page, "silent", "#/sources/large-03");
  const drawer = page.getByRole("dialog", { name: "large-03" });
  await expect(drawer.getByText("L1:FAST-0000, 16,384 Hz, in strain: the last 3 samples")).toBeVisible();
  await expect(drawer.getByText("Array f32 [3]")).toBeVisible();
  await expect(drawer.getByText("10.1.0.0/16 only")).toBeVisible();
  await drawer.getByLabel("Channel").selectOption("L1:SLOW-0001");
  await expect(drawer.getByText("L1:SLOW-0001, 16,384 Hz")).toBeVisible();
  expect(asked[0]).toBeNull();
  expect(asked).toContain("L1:SLOW-0001");
  // What was chosen stays, and who knows the names does not ask for them again.
  const forNames = asked.filter((one) => one === null).length;
  await expect.poll(() => asked.filter((one) => one === "L1:SLOW-0001").length).toBeGreaterThan(2);
  expect(asked.filter((one) => one === null)).toHaveLength(forNames);
  await expect(drawer.getByLabel("Channel")).toHaveValue("L1:SLOW-0001");
  expect(found).toEqual([]);
});

test("a run is found, opened and judged", async ({ page }) => {
  await open(page, "good", "#/runs");
  await expect(page.locator("table.runs tbody tr")).toHaveCount(50);
  await page.getByRole("button", { name: "Older runs" }).click();
  await expect(page.locator("table.runs tbody tr")).toHaveCount(100);
  await page.getByLabel("Search").fill("317");
  await expect(page.locator("table.runs tbody tr")).toHaveCount(1);
  await page.getByRole("link", { name: "317" }).click();
  const drawer = page.getByRole("dialog", { name: "Run 317" });
  await expect(drawer).toContainText("balanced: everything is accounted for");
  await expect(drawer).toContainText('codec = "auto"');
  await drawer.getByLabel("Quality").selectOption("questionable");
  await drawer.getByRole("button", { name: "Save" }).click();
  await expect(page.locator(".notice")).toContainText("Run 317: quality saved.");
  await expect(page.locator("table.runs tbody tr").first()).toContainText("questionable");
});

test("remarks of a run are added, and no earlier one is changed", async ({ page }) => {
  await open(page, "good");
  await page.getByRole("button", { name: "Stop run" }).click();
  await page.getByRole("dialog").getByLabel("Comment").fill("beam is gone");
  await page.getByRole("dialog").getByRole("button", { name: "Stop run" }).click();
  await expect(page.locator(".notice")).toContainText("Stop run: done");
  await page.getByRole("link", { name: "Runs", exact: true }).click();
  await page.getByRole("link", { name: "318" }).click();
  const drawer = page.getByRole("dialog", { name: "Run 318" });
  const remarks = drawer.getByRole("list", { name: "Remarks" }).getByRole("listitem");
  await expect(remarks).toHaveCount(2);
  await expect(remarks.nth(0)).toContainText("anna, start");
  await expect(remarks.nth(0)).toContainText("night shift, beam at 1.58 A GeV");
  await expect(remarks.nth(1)).toContainText("anna, stop");
  await expect(remarks.nth(1)).toContainText("beam is gone");
  await drawer.getByLabel("New remark").fill("large-03 was noisy");
  await drawer.getByRole("button", { name: "Save" }).click();
  await expect(page.locator(".notice")).toContainText("Run 318: remark saved.");
  await expect(remarks).toHaveCount(3);
  await expect(remarks.nth(2)).toContainText("large-03 was noisy");
  await expect(drawer.getByLabel("New remark")).toHaveValue("");
});

test("what was written of a run is not dropped without a question", async ({ page }) => {
  await open(page, "good", "#/runs/317");
  const drawer = page.getByRole("dialog", { name: "Run 317" });
  const text = drawer.getByLabel("New remark");
  const question = page.getByRole("dialog", { name: "Discard the remark?" });
  await text.fill("half a sentence");
  await page.keyboard.press("Escape");
  await expect(question.getByRole("button", { name: "Go back" })).toBeFocused();
  await page.keyboard.press("Escape");
  await expect(question).toBeHidden();
  await expect(text).toHaveValue("half a sentence");
  await drawer.getByRole("button", { name: "Close" }).click();
  await question.getByRole("button", { name: "Go back" }).click();
  await expect(text).toHaveValue("half a sentence");
  // Another run, and back: it is still there.
  await page.evaluate(() => { location.hash = "#/runs/316"; });
  await expect(page.getByRole("dialog", { name: "Run 316" }).getByLabel("New remark")).toHaveValue("");
  await page.evaluate(() => { location.hash = "#/runs/317"; });
  await expect(text).toHaveValue("half a sentence");
  await page.keyboard.press("Escape");
  await question.getByRole("button", { name: "Discard" }).click();
  await expect(drawer).toHaveCount(0);
  await page.evaluate(() => { location.hash = "#/runs/317"; });
  await expect(text).toHaveValue("");
  await page.keyboard.press("Escape");
  await expect(drawer).toHaveCount(0);
});

test("the log is filtered by level and words", async ({ page }) => {
  await open(page, "good", "#/logs");
  const rows = page.locator("table.logs tbody tr");
  await expect(rows).toHaveCount(7);
  await page.getByLabel("From level").selectOption("warn");
  await expect(rows).toHaveCount(1);
  await page.getByLabel("From level").selectOption("debug");
  await page.getByLabel("Search").fill("index=4");
  await expect(rows).toHaveCount(1);
});

test("a line of the log says what happened first, and on which day", async ({ page }) => {
  const line = {
    number: 1, time: "2026-11-20T23:59:58.250Z", level: "info",
    target: "catchment_control::conductor", message: "a command is done",
    fields: { command: "start", request: "0f6e2c1a-7b1d-4a53-9c55-0d8f6a1b2c3d" },
  };
  await page.route("**/api/v1/logs*", (route) => route.fulfill({ json: { lines: [line] } }));
  await open(page, "good", "#/logs");
  const row = page.locator("table.logs tbody tr");
  await expect(row.locator("td").first()).toHaveText("2026-11-20 23:59:58.250");
  const said = row.locator(".said");
  await expect(said).toHaveText(/^a command is done command=start/);
  await expect(said.getByText("catchment_control::conductor")).toBeHidden();
  await said.locator("summary").click();
  await expect(said.getByText(/catchment_control::conductor\s+request=0f6e2c1a/)).toBeVisible();
  // What is folded away is found all the same.
  await page.getByLabel("Search").fill("0f6e2c1a conductor");
  await expect(row).toHaveCount(1);
});

test("at midnight the time axis has the date", async ({ page }) => {
  const texts: string[] = [];
  await page.exposeFunction("drawn", (text: string) => { texts.push(text); });
  await page.addInitScript(() => {
    const { fillText } = CanvasRenderingContext2D.prototype;
    CanvasRenderingContext2D.prototype.fillText = function draw(text, x, y, most) {
      (window as unknown as { drawn: (text: string) => void }).drawn(text);
      fillText.call(this, text, x, y, most ?? 1e6);
    };
  });
  const values = Array.from({ length: 300 }, () => 4000);
  await page.route("**/api/v1/history*", (route) => route.fulfill({ json: {
    start: "2026-11-20T12:00:00Z", step_seconds: 288,
    series: {
      events_per_second: values, bytes_per_second: values, bytes_written_per_second: values,
      loss_per_second: values,
    },
  } }));
  await open(page, "good");
  await page.getByRole("button", { name: "24 h" }).click();
  await expect.poll(() => texts).toContain("00:00");
  await expect.poll(() => texts).toContain("2026-11-21");
  expect(texts).not.toContain("2026-11-20");
});

for (const view of ["overview", "sources", "runs", "alarms", "logs", "devices"]) {
  test(`${view} fits a telephone`, async ({ page }) => {
    await page.setViewportSize({ width: 390, height: 844 });
    await open(page, "loss", `#/${view}`);
    await expect(page.locator(".panel").first()).toBeVisible();
    await page.evaluate(() => document.fonts.ready);
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    expect(width).toBeLessThanOrEqual(390);
    const bottom = await page.locator(".verdict h1").evaluate((title) => title.getBoundingClientRect().bottom);
    expect(bottom).toBeLessThan(300);
  });
}

test("the switch of colours goes against the system's, and is remembered", async ({ page }) => {
  await open(page, "good");
  const root = page.locator("html");
  await expect(root).toHaveAttribute("data-theme", "dark");
  await page.emulateMedia({ colorScheme: "light" });
  await expect(root).toHaveAttribute("data-theme", "light");
  await page.getByRole("button", { name: /^Colours: system/ }).click();
  await expect(root).toHaveAttribute("data-theme", "dark");
  await page.reload();
  await expect(root).toHaveAttribute("data-theme", "dark");
});

const VIEWS: [string, string][] = [
  ["good", "#/overview"], ["emulated", "#/overview"], ["loss", "#/overview"],
  ["fault", "#/overview"], ["full", "#/overview"], ["idle", "#/overview"], ["young", "#/overview"],
  ["alarms", "#/overview"],
  ["silent", "#/sources/large-03"], ["alarms", "#/alarms"], ["good", "#/runs/315"], ["good", "#/logs"],
  ["fault", "#/devices"], ["login", ""],
];
for (const theme of ["dark", "light"] as const) {
  test(`axe finds nothing serious in ${theme}`, async ({ page }) => {
    await page.emulateMedia({ colorScheme: theme });
    for (const [scenario, hash] of VIEWS) {
      await open(page, scenario, hash);
      await expect(page.locator(".panel").first()).toBeVisible();
      if (hash.includes("-03") || hash.includes("315")) await expect(page.locator(".drawer .ledger")).toBeVisible();
      const { violations } = await new AxeBuilder({ page }).analyze();
      const grave = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
      const told = grave.map(({ id, nodes }) => `${scenario}${hash}: ${id}: ${nodes.map(({ html }) => html).join(" ")}`);
      expect(told).toEqual([]);
    }
    await open(page, "good");
    await page.getByRole("button", { name: "Stop run" }).click();
    const { violations } = await new AxeBuilder({ page }).include(".modal").analyze();
    expect(violations.filter(({ impact }) => impact === "serious" || impact === "critical")).toEqual([]);
  });
}
