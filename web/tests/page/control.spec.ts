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

test("a dialog about a run that has ended says so, and the next run goes on", async ({ page }) => {
  await open(page, "good");
  await page.getByRole("button", { name: "Stop run" }).click();
  const dialog = page.getByRole("dialog", { name: "Stop run?" });
  await dialog.getByLabel("Comment").fill("beam is gone");
  await post(page, "next");
  await expect(dialog).toContainText("Run 318 has ended. The current run is 319. Nothing was sent.");
  await expect(dialog.getByRole("button")).toHaveText(["Close"]);
  await expect(dialog.getByRole("button", { name: "Close" })).toBeFocused();
  await expect(dialog.getByLabel("Comment")).toHaveValue("beam is gone");
  await page.keyboard.press("Enter");
  await expect(dialog).toBeHidden();
  await expect(page.locator("[data-test=state]")).toHaveText("recording");
  await expect(page.locator(".tile").first()).toContainText("319");
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
