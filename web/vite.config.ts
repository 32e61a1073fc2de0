// The page's build. JSX is turned into calls by Vite's own transformer, so no Babel is needed.
import { defineConfig } from "vitest/config";

const backend = process.env.CATCHMENT_URL ?? "http://127.0.0.1:8899";

export default defineConfig({
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    target: "es2022",
    // Nothing is put into the page as data: URLs, which a strict policy would refuse.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
  },
  worker: { format: "es" },
  server: {
    proxy: {
      "/api": { target: backend },
      "/mock": { target: backend },
    },
  },
  // No machine is so slow: what takes as long as this hangs.
  test: { include: ["tests/unit/**/*.test.ts"], testTimeout: 1_200_000, hookTimeout: 1_200_000 },
});
