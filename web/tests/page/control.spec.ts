// Run control: legal buttons and no others, asked before it hurts, and answers that are told.
import { type Page, expect, test } from "@playwright/test";
import { open, post } from "./page";

async function buttons(page: Page): Promise<string[]> {
  return await page.getByRole("group", { name: "Run control" }).getByRole("button").allTextContents();
}

const LEGAL: [string, string[]][] = [
  ["good", ["Pause", "Stop run"]],
  ["idle", ["Start run", "Configure", "Arm"]],
  ["fault", ["Reset"]],
  ["full", ["Stop run", "Reset"]],
  ["viewer", []],
];

for (const [scenario, legal] of LEGAL) {
  test(`scenario ${scenario} offers ${legal.length > 0 ? legal.join(", ") : "nothing"}`, async ({ page }) => {
    await open(page, scenario);
    await expect.poll(() => buttons(page)).toEqual(legal);
  });
}

test("a stop is asked about first, and cancelling changes nothing", async ({ page }) => {
  await open(page, "good");
  await page.getByRole("button", { name: "Stop run" }).click();
  const dialog = page.getByRole("dialog", { name: "Stop run?" });
  await expect(dialog).toContainText("Ends run 318 for everybody.");
  await expect(dialog.getByRole("button", { name: "Cancel" })).toBeFocused();
  await page.keyboard.press("Escape");
  await expect(dialog).toBeHidden();
  await expect(page.locator("[data-test=state]")).toHaveText("recording");
});

test("a button has one place in all states, and Shut down is far from it", async ({ page }) => {
  const places = new Map<string, string>();
  const control = page.getByRole("group", { name: "Run control" });
  const look = async () => {
    for (const one of await control.getByRole("button").all()) {
      const name = await one.textContent() ?? "";
      const box = await one.boundingBox();
      const place = `${box?.x} ${box?.y} ${box?.width} ${box?.height}`;
      expect(places.get(name) ?? place, name).toBe(place);
      places.set(name, place);
    }
  };
  const states: [string, string, string][] = [
    ["idle", "configured", "Start run"], ["good", "recording", "Pause"],
    ["loss", "recording", "Pause"], ["full", "fault", "Reset"], ["fault", "fault", "Reset"],
  ];
  for (const [scenario, name, first] of states) {
    await open(page, scenario);
    await page.evaluate(() => document.fonts.ready);
    await expect(page.locator("[data-test=state]")).toHaveText(name);
    await expect(control.getByRole("button", { name: first })).toBeVisible();
    await look();
  }
  await open(page, "idle");
  await page.getByRole("button", { name: "Arm", exact: true }).click();
  await expect(control.getByRole("button", { name: "Disarm" })).toBeVisible();
  await look();
  await open(page, "good");
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Pause" }).click();
  await expect(control.getByRole("button", { name: "Resume" })).toBeVisible();
  await look();
  // None stands where another one does.
  expect(new Set(places.values()).size).toBe(places.size);
  expect([...places.keys()].sort()).toEqual(
    ["Arm", "Configure", "Disarm", "Pause", "Reset", "Resume", "Start run", "Stop run"],
  );
  await page.getByRole("link", { name: "Devices" }).click();
  const devices = page.getByRole("region", { name: "Devices" });
  await devices.getByRole("button", { name: "Shut down" }).click();
  const dialog = page.getByRole("dialog", { name: "Shut down?" });
  await expect(dialog).toContainText("this page goes with it");
});

test("what a front-end lets be set is set from its device", async ({ page }) => {
  await open(page, "good", "#/devices");
  const devices = page.getByRole("region", { name: "Devices" });
  await expect(devices).toContainText("cooling down");
  // Only what its schema does not mark as fixed.
  await expect(devices.getByRole("button", { name: /^Set / })).toHaveCount(1);
  await devices.getByRole("button", { name: "Set gain of node/front_ends/camera" }).click();
  const dialog = page.getByRole("dialog", { name: "Set gain of node/front_ends/camera" });
  await dialog.getByLabel("a setting from 0 to 20").fill("12");
  await dialog.getByRole("button", { name: "Set", exact: true }).click();
  await expect(dialog.getByRole("alert")).toContainText("gain: the tube is too warm for that");
  await dialog.getByLabel("a setting from 0 to 20").fill("7.5");
  await dialog.getByRole("button", { name: "Set", exact: true }).click();
  await expect(dialog).toBeHidden();
  await expect(page.getByRole("status").filter({ hasText: "is set" })).toBeVisible();
  await expect(devices).toContainText("7.5 dB");
});

test("in a fault a reset of an open run says what it costs", async ({ page }) => {
  await open(page, "full");
  await page.getByRole("button", { name: "Reset" }).click();
  const dialog = page.getByRole("dialog", { name: "Reset?" });
  await expect(dialog).toContainText("Ends run 318 and forgets the fault.");
  await expect(dialog).toContainText("data that are not written yet are lost");
  await expect(dialog).toContainText("Without a reset recording resumes by itself");
  await expect(dialog.getByRole("button", { name: "Cancel" })).toBeFocused();
});

test("the focus stays with run control when the button that was pressed goes", async ({ page }) => {
  await open(page, "idle");
  const control = page.getByRole("group", { name: "Run control" });
  await control.getByRole("button", { name: "Arm", exact: true }).focus();
  await page.keyboard.press("Enter");
  await expect(control.getByRole("button", { name: "Disarm" })).toBeVisible();
  await expect(control).toBeFocused();
  await control.getByRole("button", { name: "Start run" }).focus();
  await page.keyboard.press("Enter");
  await page.keyboard.type("by keyboard");
  await page.keyboard.press("Control+Enter");
  await expect(page.locator("[data-test=state]")).toHaveText("recording");
  await expect(page.getByRole("dialog")).toHaveCount(0);
  await expect(control).toBeFocused();
  // A dialog that is left gives the focus back.
  await control.getByRole("button", { name: "Stop run" }).click();
  await page.keyboard.press("Escape");
  await expect(control.getByRole("button", { name: "Stop run" })).toBeFocused();
});

test("what was done is told over the page and goes, a failure stays", async ({ page }) => {
  await page.clock.install();
  await open(page, "idle");
  // Letters that come late are another matter.
  await page.evaluate(() => document.fonts.ready);
  const tiles = page.locator(".tiles");
  const before = (await tiles.boundingBox())?.y;
  await page.getByRole("button", { name: "Configure" }).click();
  await expect(page.locator(".notice")).toContainText("Configure: done");
  expect((await tiles.boundingBox())?.y).toBe(before);
  await page.clock.fastForward(13_000);
  await expect(page.locator(".notice")).toHaveCount(0);
  await post(page, "set?scenario=refuse");
  await page.getByRole("button", { name: "Arm", exact: true }).click();
  await expect(page.locator(".notice")).toContainText("address in use");
  await page.clock.fastForward(13_000);
  await expect(page.locator(".notice")).toContainText("address in use");
});

test("a dialog about a run that has ended says so, and the next run goes on", async ({ page }) => {
  await open(page, "good");
  await page.getByRole("button", { name: "Stop run" }).click();
  const dialog = page.getByRole("dialog", { name: "Stop run?" });
  await dialog.getByLabel("Comment").fill("beam is gone");
  await post(page, "next");
  await expect(dialog).toContainText("Run 318 has ended. The current run is 319. Nothing was sent.");
  await expect(dialog.getByRole("button")).toHaveText(["Close", "Save as a remark of run 318"]);
  await expect(dialog.getByRole("button", { name: "Close" })).toBeFocused();
  await expect(dialog.getByLabel("Comment")).toHaveValue("beam is gone");
  // What was typed is not dropped unasked.
  const question = page.getByRole("dialog", { name: "Discard the comment?" });
  for (const key of ["Enter", "Escape"]) {
    await page.keyboard.press(key);
    await expect(question.getByRole("button", { name: "Go back" })).toBeFocused();
    await page.keyboard.press("Escape");
    await expect(question).toBeHidden();
    await expect(dialog.getByLabel("Comment")).toHaveValue("beam is gone");
  }
  await page.keyboard.press("Enter");
  await question.getByRole("button", { name: "Discard" }).click();
  await expect(dialog).toBeHidden();
  await expect(page.locator("[data-test=state]")).toHaveText("recording");
  await expect(page.locator(".tile").first()).toContainText("319");
});

test("what was typed of a run that has ended is saved as its remark", async ({ page }) => {
  await open(page, "good");
  await page.getByRole("button", { name: "Stop run" }).click();
  const dialog = page.getByRole("dialog", { name: "Stop run?" });
  await dialog.getByLabel("Comment").fill("beam is gone");
  await post(page, "next");
  await dialog.getByRole("button", { name: "Save as a remark of run 318" }).click();
  await expect(page.locator(".notice")).toContainText("Run 318: remark saved.");
  await expect(dialog).toHaveCount(0);
  await page.evaluate(() => { location.hash = "#/runs/318"; });
  const remarks = page.getByRole("list", { name: "Remarks" }).getByRole("listitem");
  await expect(remarks.last()).toContainText("beam is gone");
  await expect(page.locator("[data-test=state]")).toHaveText("recording");
});

test("a command names the run that it is meant for", async ({ page }) => {
  await open(page, "good");
  const sent = page.waitForRequest("**/api/v1/commands");
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Pause" }).click();
  expect((await sent).postDataJSON()).toMatchObject({ command: "pause", run: 318 });
  // One that is sent without a dialog, too.
  const again = page.waitForRequest("**/api/v1/commands");
  await page.getByRole("button", { name: "Resume" }).click();
  expect((await again).postDataJSON()).toMatchObject({ command: "resume", run: 318 });
});

test("a run is stopped, started with a comment, paused and resumed, by keyboard", async ({ page }) => {
  await open(page, "good");
  await page.getByRole("button", { name: "Stop run" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").getByRole("button", { name: "Stop run" }).focus();
  await page.keyboard.press("Enter");
  await expect(page.locator(".verdict")).toHaveAttribute("data-level", "not_recording");
  await expect(page.locator(".notice")).toContainText("Stop run: done, run 318");
  await page.getByRole("button", { name: "Start run" }).focus();
  await page.keyboard.press("Enter");
  await page.keyboard.type("after the beam came back");
  await page.getByRole("dialog").getByRole("button", { name: "Start run" }).click();
  await expect(page.locator("[data-test=state]")).toHaveText("recording");
  await expect(page.locator(".tile").first()).toContainText("319");
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Pause" }).click();
  await expect(page.locator(".verdict")).toContainText("paused by anna");
  await page.getByRole("button", { name: "Resume" }).click();
  await expect(page.locator(".verdict")).toHaveAttribute("data-level", "good");
});

test("a command that hangs is told, with what it waits for, and leaves no button", async ({ page }) => {
  await open(page, "hang");
  await page.getByRole("button", { name: "Stop run" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Stop run" }).click();
  await expect(page.locator(".under-way")).toContainText("Stop run is under way");
  await expect(page.locator(".under-way")).toContainText("waiting for node/recorder/write");
  await expect.poll(() => buttons(page)).toEqual([]);
  await post(page, "release");
  await expect(page.locator(".notice")).toContainText("Stop run: done");
});

test("a refusal is shown in the node's own words", async ({ page }) => {
  await open(page, "refuse");
  await page.getByRole("button", { name: "Stop run" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Stop run" }).click();
  await expect(page.locator(".notice")).toContainText("address in use");
});

test("a token signs in, a wrong one does not, and signing out forgets", async ({ page }) => {
  await open(page, "login");
  await page.getByLabel("Token").fill("guess");
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.getByRole("alert")).toContainText("No such token");
  await page.getByLabel("Token").fill("open sesame");
  await page.getByRole("button", { name: "Sign in" }).click();
  await expect(page.locator(".verdict")).toBeVisible();
  await page.getByRole("button", { name: "Sign out" }).click();
  await expect(page.getByLabel("Token")).toBeVisible();
  await expect(page.locator(".verdict")).toHaveCount(0);
});
