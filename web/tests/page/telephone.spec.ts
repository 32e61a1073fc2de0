// What a telephone shows whole, in 390 px.
import { type Locator, expect, test } from "@playwright/test";
import { open } from "./page";

test.use({ viewport: { width: 390, height: 844 } });

/** Nothing of it is cut off at the side. */
async function whole(place: Locator): Promise<void> {
  const beyond = () => place.evaluate((one) => one.scrollWidth - one.clientWidth);
  await expect.poll(beyond).toBeLessThanOrEqual(0);
}

test("the list of runs is not cut", async ({ page }) => {
  await open(page, "good", "#/runs");
  const rows = page.locator("table.runs tbody tr");
  await expect(rows.first()).toBeVisible();
  await whole(page.getByRole("region", { name: "Runs" }).locator(".table-place"));
  // The longest word that there is.
  await page.route("**/api/v1/runs?*", async (route) => {
    const { runs } = await (await route.fetch()).json();
    const long = { quality: "questionable", loss_count: 1_234_567, emulated: true };
    const longer = runs.map((run: object) => ({ ...run, ...long }));
    await route.fulfill({ json: { runs: longer, next: null } });
  });
  await page.getByLabel("Search").fill("3");
  await expect(rows.first()).toContainText("questionable");
  await whole(page.getByRole("region", { name: "Runs" }).locator(".table-place"));
});

test("the targets are not cut", async ({ page }) => {
  await open(page, "targets");
  const panel = page.getByRole("region", { name: /^Targets/ });
  await expect(panel.getByText("recording in part")).toBeVisible();
  await whole(panel.locator(".table-place"));
  await panel.getByRole("link", { name: "mirror" }).click();
  await whole(page.getByRole("region", { name: "Sources in mirror" }));
});

test("all views can be reached beside the count of alarms", async ({ page }) => {
  await open(page, "alarms");
  await expect(page.locator("nav .count")).toHaveText("3");
  await whole(page.getByRole("navigation"));
  for (const one of await page.getByRole("navigation").getByRole("link").all()) await whole(one);
  const last = await page.getByRole("link", { name: "Devices" }).boundingBox();
  expect((last?.x ?? 0) + (last?.width ?? 0)).toBeLessThanOrEqual(390);
});

test("the text of an alarm has the width of its card", async ({ page }) => {
  await open(page, "alarms");
  const card = page.locator(".alarm").first();
  await expect(card.getByRole("button")).toBeVisible();
  const [all, text] = [await card.boundingBox(), await card.locator(".alarm-text").boundingBox()];
  expect(text?.width ?? 0).toBeGreaterThan(0.7 * (all?.width ?? 0));
});

test("a fault of emulated data leaves the headline where it is", async ({ page }) => {
  await open(page, "emulated-full");
  await expect(page.locator(".verdict .emulated")).toBeVisible();
  await page.evaluate(() => document.fonts.ready);
  const verdict = await page.locator(".verdict").boundingBox();
  const sign = await page.locator(".verdict-sign").boundingBox();
  const title = await page.locator(".verdict h1").boundingBox();
  expect((title?.x ?? 0) - (sign?.x ?? 0) - (sign?.width ?? 0)).toBeLessThan(30);
  expect(title?.width ?? 0).toBeGreaterThan(0.6 * (verdict?.width ?? 0));
});
