// Several targets: a row for each, and its line of the ledger source by source.
import AxeBuilder from "@axe-core/playwright";
import { expect, test } from "@playwright/test";
import { complaints, open } from "./page";

test("several targets have a row each, and what one lacks is a note", async ({ page }) => {
  const found = complaints(page);
  await open(page, "targets");
  const panel = page.getByRole("region", { name: /^Targets/ });
  const rows = panel.locator("tbody tr");
  await expect(rows).toHaveCount(4);
  await expect(rows.nth(0)).toContainText(/raid required\s*recording\s*\d/);
  await expect(rows.nth(1)).toContainText(/copy required\s*in fault/);
  await expect(rows.nth(2)).toContainText(/mirror best effort\s*recording in part/);
  await expect(rows.nth(2).getByRole("meter")).toHaveAttribute("aria-valuenow", "93");
  await expect(rows.nth(2).getByRole("meter")).toHaveClass(/tone-calm/);
  await expect(rows.nth(3)).toContainText(/nothing best effort\s*keeps nothing/);
  await expect(panel).toContainText(/mirror did not get 12.5\s% of the fragments/);
  await expect(panel).not.toContainText("nothing did not get");
  // The one that is required and fails is a warning, and no other is.
  await expect(page.getByRole("list", { name: "Warnings" })).toContainText("target copy: cannot make");
  await expect(page.locator(".verdict")).toHaveAttribute("data-level", "good");
  await expect(page.locator(".verdict")).toContainText("target copy: the run's folder is gone");
  await expect(page.locator(".alarm")).toHaveCount(1);
  await expect(page.locator(".alarm")).toContainText("Target copy cannot be written");
  expect(found).toEqual([]);
});

test("a target is opened: why it is in fault, and each source in it", async ({ page }) => {
  await open(page, "targets", "", "&sources=1000");
  const panel = page.getByRole("region", { name: /^Targets/ });
  await panel.getByRole("link", { name: "copy" }).click();
  const drawer = page.getByRole("dialog", { name: "copy" });
  await expect(drawer).toContainText("No such file or directory");
  await expect(drawer).toContainText("/data/copies");
  await expect(drawer.locator(".ledger")).toContainText("discarded: disk failed");
  const lines = drawer.getByRole("region", { name: "Sources in copy" });
  await expect(lines.getByRole("columnheader")).toHaveText(["Source", "Recorded", "Durable", "Not taken", "Discarded"]);
  const rows = lines.locator("tbody tr:not(.spacer)");
  await expect(rows.first().getByRole("cell").first()).toHaveText(/^[1-9][\d,]*$/);
  expect(await rows.count()).toBeLessThan(50);
  await page.keyboard.press("Escape");
  await expect(drawer).toHaveCount(0);
  await page.evaluate(() => { location.hash = "#/overview/mirror"; });
  const other = page.getByRole("dialog", { name: "mirror" });
  await expect(other).toContainText("93\u00a0% of 53.7\u00a0MB");
  const { violations } = await new AxeBuilder({ page }).analyze();
  const grave = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  expect(grave.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`)).toEqual([]);
});

test("storage nodes that share a target are named, with what is left out, and so is a spill", async ({ page }) => {
  const found = complaints(page);
  await open(page, "nodes");
  const panel = page.getByRole("region", { name: /^Targets/ });
  await expect(panel.locator("tbody tr")).toHaveCount(2);
  await expect(panel).toContainText(/Storage node 10.0.0.8:7100 of store takes nothing now, for \d+\ss: it is away: Connection refused/);
  await expect(panel).toContainText(/431 frames \(3.53\sGB\) are waiting in the spill of archive, which has room for 2.4\sh at this rate/);
  await expect(panel.locator("tbody tr").nth(1)).toContainText(/archive required\s*away, frames are spilled/);
  await expect(page.locator(".verdict")).toHaveAttribute("data-level", "good");
  await expect(page.locator(".alarm")).toContainText("Target archive takes nothing now, its frames go to its spill");
  await panel.getByRole("link", { name: "store" }).click();
  const nodes = page.getByRole("dialog", { name: "store" }).getByRole("table", { name: "Storage nodes" }).locator("tbody tr");
  await expect(nodes).toHaveCount(3);
  await expect(nodes.nth(0)).toContainText(/10.0.0.7:7100\s*connected\s*[\d,]+.*12.6\sMB/);
  await expect(nodes.nth(1)).toContainText(/10.0.0.8:7100\s*takes nothing now\s*[\d,]+.*0\sB/);
  const { violations } = await new AxeBuilder({ page }).analyze();
  const grave = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
  expect(grave.map(({ id, nodes: at }) => `${id}: ${at.map(({ html }) => html).join(" ")}`)).toEqual([]);
  await page.evaluate(() => { location.hash = "#/overview/archive"; });
  const archive = page.getByRole("dialog", { name: "archive" });
  await expect(archive).toContainText(/3.53\sGB in 431 frames, of 107\sGB/);
  await expect(archive).toContainText(/Forwarded\s*8.21\sGB in 1,001 frames/);
  await expect(archive.getByRole("table", { name: "Storage nodes" })).toHaveCount(0);
  expect(found).toEqual([]);
});

test("of one target nothing more is said", async ({ page }) => {
  await open(page, "good", "#/overview/local");
  await expect(page.locator(".tile")).toHaveCount(8);
  await expect(page.getByRole("heading", { name: /^Targets/ })).toHaveCount(0);
  await expect(page.getByRole("dialog")).toHaveCount(0);
});
