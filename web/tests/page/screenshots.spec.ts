// Screenshots of every view, for people to look at. The README's is good-dark-wide.png, copied to
// page.png and committed when the page has changed.
import { expect, test } from "@playwright/test";
import { open, post } from "./page";

const WIDE = { width: 1440, height: 900 };
const NARROW = { width: 390, height: 844 };
const FOLDER = "screenshots";

const SHOTS: [string, string, string][] = [
  ["good", "good", "#/overview"],
  ["loss", "loss", "#/overview"],
  ["targets", "targets", "#/overview"],
  ["target", "targets", "#/overview/mirror"],
  ["silent", "silent", "#/sources/large-03"],
  ["fault", "fault", "#/overview"],
  ["alarms", "alarms", "#/overview"],
  ["alarm-list", "alarms", "#/alarms"],
  ["idle", "idle", "#/overview"],
  ["hang", "good", "#/overview"],
  ["runs", "good", "#/runs"],
  ["run", "good", "#/runs/315"],
  ["logs", "good", "#/logs"],
  ["devices", "fault", "#/devices"],
];

for (const theme of ["dark", "light"] as const) {
  for (const [size, viewport] of [["wide", WIDE], ["narrow", NARROW]] as const) {
    test(`screenshots in ${theme}, ${size}`, async ({ page }) => {
      await page.setViewportSize(viewport);
      await page.emulateMedia({ colorScheme: theme });
      for (const [name, scenario, hash] of SHOTS) {
        await open(page, scenario, hash);
        await expect(page.locator(".verdict")).toBeVisible();
        // Until the plots have their curves.
        const curves = page.locator(".plot-place");
        if (hash === "#/overview") await expect(curves.first()).not.toHaveAttribute("aria-label", /– at most/);
        await page.evaluate(() => document.fonts.ready);
        await page.screenshot({ path: `${FOLDER}/${name}-${theme}-${size}.png`, fullPage: !hash.includes("/", 2) });
      }
      await open(page, "good");
      await page.getByRole("button", { name: "Stop run" }).click();
      await page.screenshot({ path: `${FOLDER}/stop-${theme}-${size}.png` });
      await page.keyboard.press("Escape");
      await post(page, "mute");
      await expect(page.getByRole("alertdialog")).toBeVisible();
      await page.screenshot({ path: `${FOLDER}/stale-${theme}-${size}.png` });
    });
  }
}
