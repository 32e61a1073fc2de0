// What the page's tests share: opening a scenario, and changing it while the page looks on.
import { type Page, expect } from "@playwright/test";

/** Opens the page on a mock of its own. Refused by the content-security-policy counts as failed. */
export async function open(page: Page, scenario: string, hash = "", query = ""): Promise<void> {
  await page.goto(`/?scenario=${scenario}${query}${hash}`);
  if (scenario !== "login") await expect(page.locator(".verdict")).toBeVisible();
}

/** Changes the page's mock: set?scenario=…, next, cut, mute, heal, release. */
export async function post(page: Page, what: string): Promise<void> {
  const status = await page.evaluate(
    async (path) => (await fetch(path, { method: "POST" })).status, `/mock/${what}`,
  );
  expect(status).toBe(200);
}

/** What the browser refused or could not do, as it comes. */
export function complaints(page: Page): string[] {
  const found: string[] = [];
  page.on("console", (message) => {
    if (message.type() === "error") found.push(message.text());
  });
  page.on("pageerror", (error) => found.push(String(error)));
  return found;
}
