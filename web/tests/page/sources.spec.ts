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
