// Holds the built page to its size: all that a browser fetches, as gzip makes it. Fonts are
// compressed already; their own length counts.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const BYTES_MAX = 150_000;

/** @param {string} folder @returns {string[]} */
function files(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? files(path) : [path];
  });
}

let total = 0;
for (const path of files("dist")) {
  const bytes = gzipSync(readFileSync(path), { level: 9 }).length;
  total += bytes;
  console.log(`${String(bytes).padStart(8)} bytes gzipped  ${path}`);
}
console.log(`${String(total).padStart(8)} bytes gzipped in all, ${BYTES_MAX} at most`);
if (total > BYTES_MAX) {
  console.error("The page is too large.");
  process.exit(1);
}
