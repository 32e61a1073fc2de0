// What the tests over a real node share.
import { createServer } from "node:net";
import { type Page, expect } from "@playwright/test";
import { misfits } from "./shapes";

/** Below the ephemeral ones: no connection of another test is given it. */
export async function freePort(): Promise<number> {
  const port = 30_000 + Math.floor(Math.random() * 2000);
  return await new Promise((resolve) => {
    const server = createServer().on("error", () => resolve(freePort()));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(port)));
  });
}

export async function answers(url: string): Promise<boolean> {
  return await fetch(`${url}/healthz`).then((response) => response.ok, () => false);
}

/** What the node answers is what the page's types say. */
export async function fits(url: string, path: string, type: string): Promise<unknown> {
  let got = await fetch(`${url}/api/v1${path}`);
  // A sample that is still being read, or of which the first frame is not on disk yet.
  const comes = () => got.status === 503 || (path.endsWith("/sample") && got.status === 404);
  while (comes()) got = await fetch(`${url}/api/v1${path}`);
  const answer: unknown = await got.json();
  expect(misfits(answer, type), path).toEqual([]);
  return answer;
}

export const verdict = (page: Page) => page.locator(".verdict");

export async function press(page: Page, name: string): Promise<void> {
  await page.getByRole("group", { name: "Run control" }).getByRole("button", { name }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("button", { name }).click();
}
