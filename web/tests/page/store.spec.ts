// A storage node: streams, folders and refusals in place of a run and its sources.
import AxeBuilder from "@axe-core/playwright";
import { expect, test } from "@playwright/test";
import { complaints, open } from "./page";

test("a storage node shows its streams, its folders and what it refused", async ({ page }) => {
  const found = complaints(page);
  await open(page, "store");
  await expect(page.locator(".verdict h1")).toHaveText("Storing");
  await expect(page).toHaveTitle("✓ Storing · Catchment");
  await expect(page.locator(".verdict")).toContainText("is not used");
  const streams = page.getByRole("region", { name: /^Streams/ }).locator("tbody tr");
  await expect(streams).toHaveCount(3);
  await expect(streams.nth(0)).toContainText(/run-000318 catchment 0.1.0 at 10.1.0.21:51774\s*storing\s*131\sMB\/s/);
  await expect(streams.nth(1)).toContainText(/run-000317.*broke off/);
  await expect(streams.nth(2)).toContainText(/run-000316.*ended/);
  const stored = page.getByRole("region", { name: /^Stored runs/ });
  await expect(stored).toContainText("the newest 20 of 57 runs");
  const runs = stored.locator(".stored-runs tbody tr");
  await expect(runs).toHaveCount(20);
  await expect(runs.nth(0)).toContainText(/run-000318\s*0\s*61\s*1.04\sTB\s*1 file being written/);
  await expect(runs.nth(1)).toContainText(/run-000317.*not being written/);
  await runs.nth(0).getByRole("button").click();
  await expect(stored).toContainText("Files of run-000318 the last 50 of 61");
  const files = stored.locator(".stored-files tbody tr");
  await expect(files).toHaveCount(50);
  await expect(files.nth(0)).toContainText(/run-000318-00060.catch.*17.0\sGB\s*being written/);
  await runs.nth(0).getByRole("button").click();
  await expect(files).toHaveCount(0);
  const folders = page.getByRole("region", { name: "Folders" });
  await expect(folders.locator("tbody tr").nth(0)).toContainText(/\/data\/a\s*works\s*3.10\sTB of 8.00\sTB/);
  await expect(folders.locator("tbody tr").nth(1)).toContainText(/\/data\/b\s*not used/);
  await expect(folders).toContainText("Input/output error");
  const refusals = page.getByRole("region", { name: "Frames and refusals" });
  await expect(refusals).toContainText("10.1.0.40:7100, TLS and tokens");
  await expect(refusals).toContainText("Sessions refused: name in use");
  await expect(page.locator(".alarm")).toContainText("Folder /data/b cannot be written");
  // Of what it has not, nothing is said.
  const views = page.getByRole("navigation", { name: "Views" });
  await expect(views.getByRole("link")).toHaveText(["Overview", /^Alarms/, "Log", "Devices"]);
  await expect(page.getByRole("heading", { name: /^(Sources|Targets|Flow)/ })).toHaveCount(0);
  await expect(page.getByRole("button", { name: "Start" })).toHaveCount(0);
  const { violations } = await new AxeBuilder({ page }).analyze();
  const grave = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  expect(grave.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`)).toEqual([]);
  expect(found).toEqual([]);
});
