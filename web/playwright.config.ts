// The page in Debian's Chromium: against the mock, or, as project `real`, against a recorder.
import { existsSync } from "node:fs";
import { defineConfig } from "@playwright/test";

const PORT = 8899;
const CHROMIUM = process.env.CHROMIUM ?? "/usr/bin/chromium";
if (!existsSync(CHROMIUM)) throw new Error(`${CHROMIUM} is missing: apt-get install chromium`);
const root = process.getuid?.() === 0;

export default defineConfig({
  testDir: "tests",
  outputDir: "test-results",
  fullyParallel: true,
  workers: 2,
  forbidOnly: true,
  // A test that must be repeated to pass has found something.
  retries: 0,
  // No machine is so slow: what takes as long as this hangs.
  timeout: 1_200_000,
  expect: { timeout: 300_000 },
  reporter: [["list"]],
  use: {
    baseURL: `http://127.0.0.1:${PORT}`,
    colorScheme: "dark",
    viewport: { width: 1440, height: 900 },
    launchOptions: { executablePath: CHROMIUM, args: root ? ["--no-sandbox"] : [] },
    trace: "retain-on-failure",
  },
  projects: [
    { name: "page", testDir: "tests/page" },
    { name: "real", testDir: "tests/real", fullyParallel: false, workers: 1 },
  ],
  webServer: process.argv.includes("--project=real") ? [] : [{
    command: `node mock/server.mjs ${PORT}`,
    url: `http://127.0.0.1:${PORT}/`,
    reuseExistingServer: false,
    timeout: 1_200_000,
  }],
});
