// Sources: what their drawers say while nothing comes.
import { type Page, expect, test } from "@playwright/test";
import { open } from "./page";

/** No event in the source's last frame, in the node's words. */
async function without(page: Page, name: string, what: string): Promise<void> {
  await page.route(`**/sources/${name}/sample*`, (route) => route.fulfill({
    status: 404, contentType: "application/problem+json",
    json: {
      title: "Not Found", status: 404, detail: `there is no recorded ${what} of "${name}" yet`,
    },
  }));
}

test("a silent source has no event in the last frame, which is no error", async ({ page }) => {
  await without(page, "small-15", "event");
  await open(page, "good", "#/sources/small-15");
  const drawer = page.getByRole("dialog", { name: "small-15" });
  await expect(drawer).toContainText("No event of small-15 in the last frame.");
  await expect(drawer).not.toContainText("there is no recorded event");
  await expect(drawer.locator(".error")).toHaveCount(0);
  await expect(drawer.locator("dt", { hasText: "Receives on" }).locator("+ dd"))
    .toHaveText("127.0.0.1:21015, from anywhere");
});

test("of a source that has recorded nothing yet that is said", async ({ page }) => {
  await without(page, "small-15", "event");
  await open(page, "quiet", "#/sources/small-15");
  const drawer = page.getByRole("dialog", { name: "small-15" });
  await expect(drawer).toContainText("No event of small-15 is recorded yet.");
  await expect(drawer.locator(".error")).toHaveCount(0);
});

test("another failure of a sample is an error", async ({ page }) => {
  await page.route("**/sources/small-15/sample*", (route) => route.fulfill({
    status: 500, contentType: "application/problem+json",
    json: { title: "Internal Server Error", status: 500, detail: "it failed: no thread" },
  }));
  await open(page, "good", "#/sources/small-15");
  const drawer = page.getByRole("dialog", { name: "small-15" });
  await expect(drawer.locator(".error")).toHaveText("it failed: no thread");
});

test("a source's drawer says until when its front-end keeps data", async ({ page }) => {
  await open(page, "good", "#/sources/large-00");
  const drawer = page.getByRole("dialog", { name: "large-00" });
  await expect(drawer.locator("dt", { hasText: "Its front-end keeps data" }).locator("+ dd"))
    .toHaveText("until they are taken");
  await open(page, "good", "#/sources/small-00");
  const other = page.getByRole("dialog", { name: "small-00" });
  await expect(other.locator(".hex")).toBeVisible();
  await expect(other).not.toContainText("Its front-end keeps data");
});

test("of the last events it is shown whether a source is there, absent or not expected", async ({ page }) => {
  await open(page, "good", "#/sources/medium-00");
  const drawer = page.getByRole("dialog", { name: "medium-00" });
  await expect(drawer.getByRole("img", { name: "In events: last 16 events: 8 there, 8 not expected" })).toBeVisible();
  await expect(drawer.locator(".answer-not_expected")).toHaveCount(8);
  await expect(drawer.locator(".answer-there").first()).toHaveAttribute("title", /^event [\d,]+: there$/);
  await open(page, "loss", "#/sources/medium-07");
  const lossy = page.getByRole("dialog", { name: "medium-07" });
  await expect(lossy.getByRole("img", { name: "In events: last 16 events: 6 there, 2 absent, 8 not expected" })).toBeVisible();
});
