// The README's picture: a node that runs at CATCHMENT_URL as it looks to a shifter.
// CATCHMENT_URL=http://127.0.0.1:8750 npm run test:real -- screenshots
import { expect, test } from "@playwright/test";

const { CATCHMENT_PROGRAM, CATCHMENT_URL } = process.env;

test.skip(CATCHMENT_PROGRAM !== undefined || !CATCHMENT_URL, "CATCHMENT_URL is not set, or a program is tested");

test("a node that records good data", async ({ page }) => {
  await page.goto(`${CATCHMENT_URL}/#/overview`);
  await expect(page.locator(".verdict")).toHaveAttribute("data-level", "good");
  await page.waitForLoadState("networkidle").catch(() => undefined);
  await page.evaluate(() => document.fonts.ready);
  await page.screenshot({ path: "screenshots/page.png", fullPage: true });
});
