// Runs: what is known of them, and in which words.
import { expect, test } from "@playwright/test";
import { open } from "./page";

test("of an interrupted run the loss is the least, everywhere", async ({ page }) => {
  await open(page, "good", "#/runs");
  await page.getByRole("button", { name: "Older runs" }).click();
  const row = page.locator("table.runs tbody tr", { hasText: "296" }).first();
  const cell = row.getByRole("cell", { name: "1,231+" });
  await expect(cell).toHaveAttribute("title", /^At least so much/);
  await page.evaluate(() => { location.hash = "#/runs/296"; });
  const drawer = page.getByRole("dialog", { name: "Run 296" });
  await expect(drawer.locator("dd[title^='At least so much']")).toHaveText("1,231+ or more");
  await page.route("**/api/v1/runs?limit=1", async (route) => {
    const url = route.request().url().replace(/runs.*/, "runs/296");
    const run = await (await route.fetch({ url })).json();
    await route.fulfill({ json: { runs: [run], next: null } });
  });
  await open(page, "idle");
  await expect(page.locator(".last-run")).toContainText("interrupted");
  await expect(page.locator(".last-run [title]")).toHaveText("1,231+ lost");
});

test("entries of the ledger have the same words in all places", async ({ page }) => {
  await open(page, "good", "#/runs/315");
  const drawer = page.getByRole("dialog", { name: "Run 315" });
  await expect(drawer.locator(".plain-list")).toContainText("3 discarded: disk failed");
  await expect(drawer.locator(".ledger")).toContainText("discarded: disk failed");
  await expect(drawer).not.toContainText("fragments discarded disk");
});

test("a run under way has its ledger as it is now", async ({ page }) => {
  await open(page, "good", "#/runs/318");
  const drawer = page.getByRole("dialog", { name: "Run 318" });
  await expect(drawer.locator(".ledger")).toContainText("fragments recorded");
  await expect(drawer).toContainText("The books are closed when the run ends.");
  await expect(drawer).not.toContainText("Nothing counted");
});

test("a run that never began was asked for and failed for a reason", async ({ page }) => {
  await open(page, "good", "#/runs/265");
  const drawer = page.getByRole("dialog", { name: "Run 265" });
  await expect(drawer).toContainText("not started; asked by bert");
  await expect(drawer.getByRole("link", { name: "log" })).toHaveAttribute("href", "#/logs");
  // Of a node that has the reason.
  await page.route("**/api/v1/runs/265", async (route) => {
    const run = await (await route.fetch()).json();
    await route.fulfill({ json: { ...run, reason: "cannot bind 0.0.0.0:20007" } });
  });
  await page.evaluate(() => { location.hash = "#/runs/264"; });
  await expect(page.getByRole("dialog", { name: "Run 264" })).toBeVisible();
  await page.evaluate(() => { location.hash = "#/runs/265"; });
  await expect(drawer).toContainText("failed to start: cannot bind 0.0.0.0:20007");
});
