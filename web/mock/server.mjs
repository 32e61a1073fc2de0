// A server for the page's development and tests, with nothing behind it: node mock/server.mjs
// [PORT]. It serves web/dist and the API. `/?scenario=loss&sources=1000` makes a new world for the
// browser that asks; POST /mock/set?scenario=..., /mock/next, /mock/cut, /mock/mute, /mock/heal
// change it while a test looks on. It sends the same content-security-policy as the real server, so
// that tests hold the page to it.

import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { ledger } from "./past.mjs";
import { storedFiles, storedRuns } from "./store.mjs";
import { SCENARIOS, World } from "./world.mjs";

/** @import {IncomingMessage, ServerResponse} from "node:http" */

const PORT = Number(process.argv[2] ?? process.env.PORT ?? 8899);
const DIST = join(fileURLToPath(import.meta.url), "../../dist");
const TOKEN = "open sesame";
const POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; " +
  "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
/** @type {Record<string, string>} */
const TYPES = {
  ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css",
  ".svg": "image/svg+xml", ".woff2": "font/woff2",
};
const WORLDS_MAX = 200;
/** @type {Map<string, World & { muted?: boolean }>} */
const worlds = new Map();

/** @param {IncomingMessage} request @param {ServerResponse} response @param {URL} url */
function world(request, response, url) {
  const id = /(?:^|; )mock=(\w+)/.exec(request.headers.cookie ?? "")?.[1];
  const scenario = url.searchParams.get("scenario");
  const known = id === undefined ? undefined : worlds.get(id);
  if (known && (scenario === null || url.pathname.startsWith("/mock/"))) return known;
  const made = new World({
    scenario: SCENARIOS.includes(scenario ?? "") ? (scenario ?? "good") : "good",
    sources: Math.min(2000, Number(url.searchParams.get("sources") ?? 90)),
  });
  const name = crypto.randomUUID().replaceAll("-", "");
  worlds.set(name, made);
  const oldest = worlds.keys().next().value;
  if (worlds.size > WORLDS_MAX && oldest !== undefined) worlds.delete(oldest);
  response.setHeader("set-cookie", `mock=${name}; Path=/; SameSite=Strict`);
  return made;
}

/** @param {ServerResponse} response @param {unknown} body @param {number} status */
function json(response, body, status = 200) {
  response.writeHead(status, {
    "content-type": status >= 400 ? "application/problem+json" : "application/json",
    "cache-control": "no-store",
  });
  response.end(JSON.stringify(body));
}

/** @param {ServerResponse} response @param {number} status @param {string} title @param {string} detail */
const problem = (response, status, title, detail) => json(response, { type: "about:blank", title, status, detail }, status);

/** @param {IncomingMessage} request @returns {Promise<any>} */
async function body(request) {
  let text = "";
  for await (const chunk of request) text += chunk;
  return text === "" ? {} : JSON.parse(text);
}

/** @param {ServerResponse} response @param {World & { muted?: boolean }} here */
function stream(response, here) {
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
  response.write("retry: 1000\n\n");
  /** @param {string} event @param {unknown} data */
  const send = (event, data) => {
    if (here.cut) response.destroy();
    else if (!here.muted) response.write(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
  };
  let ticks = 0;
  const tick = () => {
    here.step();
    send("state", here.snapshot());
    if (ticks % 2 === 0) send("sources", { sources: here.sources.list() });
    ticks += 1;
  };
  tick();
  const timer = setInterval(tick, 500);
  here.listeners.add(send);
  response.on("close", () => {
    clearInterval(timer);
    here.listeners.delete(send);
  });
}

/** @param {ServerResponse} response @param {string} path */
async function page(response, path) {
  const name = path === "/" ? "index.html" : normalize(path).replace(/^(\.\.[/\\])+/, "");
  try {
    const content = await readFile(join(DIST, name));
    response.writeHead(200, {
      "content-type": TYPES[extname(name)] ?? "application/octet-stream",
      "content-security-policy": POLICY, "x-content-type-options": "nosniff",
    });
    response.end(content);
  } catch {
    problem(response, 404, "Not found", `${path}: run npm run build first?`);
  }
}

/** @typedef {{ request: IncomingMessage, response: ServerResponse, url: URL, here: World & { muted?: boolean }, match: string[] }} Call */

/** @type {[string, RegExp, (call: Call) => unknown][]} */
const ROUTES = [
  ["GET", /^\/state$/, ({ here, response }) => json(response, here.snapshot())],
  ["GET", /^\/stream$/, ({ here, response }) => stream(response, here)],
  ["GET", /^\/sources$/, ({ here, response }) => json(response, { sources: here.sources.list() })],
  ["GET", /^\/sources\/([^/]+)\/sample$/, ({ here, response, match }) => {
    const sample = here.sources.sample(match[1] ?? "", Math.floor(here.run?.events ?? 0));
    return sample ? json(response, sample) : problem(response, 404, "No such source", match[1] ?? "");
  }],
  ["GET", /^\/devices$/, ({ here, response }) => json(response, { devices: here.devices() })],
  ["GET", /^\/devices\/(.+)\/schema$/, ({ here, response, match }) => json(response, here.schema(match[1] ?? ""))],
  ["PATCH", /^\/devices\/(.+)\/properties$/, async ({ here, request, response, match }) => {
    const { gain } = await body(request);
    if (gain > 10) return problem(response, 409, "Conflict", "gain: the tube is too warm for that");
    here.gain = gain;
    return json(response, here.devices().find((device) => device.path === match[1]));
  }],
  ["GET", /^\/runs$/, ({ here, response, url }) => runs(here, response, url)],
  ["GET", /^\/runs\/(\d+)$/, ({ here, response, match }) => json(response, found(here, match))],
  ["PATCH", /^\/runs\/(\d+)$/, async ({ here, request, response, match }) => {
    const run = found(here, match);
    const { remark, quality, ...unknown } = await body(request);
    if (!run) return problem(response, 404, "No such run", match[1] ?? "");
    if (Object.keys(unknown).length > 0) return problem(response, 422, "Unprocessable", "unknown field");
    if (quality) run.quality = quality;
    if (remark) here.remark(run, "remark", remark);
    return json(response, run);
  }],
  ["GET", /^\/runs\/(\d+)\/ledger$/, ({ here, response, match }) => {
    const run = found(here, match);
    // The recorder has not said anything of a run under way.
    if (run?.ended === null) return json(response, { balanced: null, totals: {}, sources: {} });
    return run ? json(response, ledger(run)) : problem(response, 404, "No such run", match[1] ?? "");
  }],
  ["GET", /^\/runs\/(\d+)\/configuration$/, ({ response }) => {
    response.writeHead(200, { "content-type": "text/plain; charset=utf-8" });
    response.end('[run]\nfolder = "/data/runs"\n\n[memory]\nbudget = "1 GiB"\n\n[frame]\nbytes = "32 MiB"\ncodec = "auto"\n');
  }],
  ["GET", /^\/stored$/, ({ response, url }) => json(response, storedRuns(Number(url.searchParams.get("limit") ?? 100)))],
  ["GET", /^\/stored\/([^/]+)$/, ({ response, match }) => json(response, storedFiles(match[1] ?? ""))],
  ["GET", /^\/logs$/, ({ here, response }) => json(response, { lines: [...here.lines].reverse() })],
  ["GET", /^\/alarms$/, ({ here, response }) => json(response, { alarms: [...here.alarms.values()] })],
  ["POST", /^\/alarms\/acknowledge$/, async ({ here, request, response }) => {
    /** @type {{ ids: string[] | null }} */
    const { ids } = await body(request);
    const seen = [...here.alarms.values()].filter((alarm) => ids === null || ids.includes(alarm.id));
    for (const alarm of seen) Object.assign(alarm, { state: "acknowledged", acknowledged_by: "anna" });
    here.tell("alarm", { alarms: [...here.alarms.values()] });
    return json(response, { alarms: seen });
  }],
  ["POST", /^\/alarms\/([^/]+)\/acknowledge$/, ({ here, response, match }) => {
    const alarm = here.alarms.get(match[1] ?? "");
    if (!alarm) return problem(response, 404, "No such alarm", match[1] ?? "");
    Object.assign(alarm, { state: "acknowledged", acknowledged_by: "anna" });
    here.tell("alarm", { alarms: [...here.alarms.values()] });
    return json(response, alarm);
  }],
  ["GET", /^\/history$/, ({ here, response, url }) =>
    json(response, here.history(Number(url.searchParams.get("seconds")), Number(url.searchParams.get("points"))))],
  ["POST", /^\/commands$/, async ({ here, request, response }) => {
    const answer = here.command(await body(request));
    if ("refused" in answer) return problem(response, 409, "Refused", answer.refused);
    return json(response, answer, answer.status === "under_way" ? 202 : 200);
  }],
  ["GET", /^\/commands\/([^/]+)$/, ({ here, response, match }) => {
    const result = here.results.get(match[1] ?? "");
    return result ? json(response, result) : problem(response, 404, "No such request", match[1] ?? "");
  }],
];

/** @param {World} here @param {string[]} match */
const found = (here, match) => here.catalogue().find((run) => run.number === Number(match[1]));

/** @param {World} here @param {ServerResponse} response @param {URL} url */
function runs(here, response, url) {
  const before = Number(url.searchParams.get("before") ?? Number.MAX_SAFE_INTEGER);
  const limit = Number(url.searchParams.get("limit") ?? 50);
  const search = (url.searchParams.get("search") ?? "").toLowerCase();
  const quality = url.searchParams.get("quality");
  const all = here.catalogue().filter((run) =>
    run.number < before && (!quality || run.quality === quality) &&
    `${run.number} ${run.who} ${run.comment}`.toLowerCase().includes(search));
  json(response, { runs: all.slice(0, limit), next: all.length > limit ? (all[limit - 1]?.number ?? null) : null });
}

/** @param {Call} call */
async function session({ here, request, response }) {
  if (request.method === "DELETE") {
    here.signed_in = false;
    return void response.writeHead(204).end();
  }
  if (request.method === "POST") {
    here.signed_in = (await body(request)).token === TOKEN;
    if (!here.signed_in) return problem(response, 401, "Unknown token", "No such token, or it was revoked.");
  }
  if (!here.signed_in) return problem(response, 401, "Not signed in", "Send a token.");
  return json(response, { name: "anna", role: here.role, csrf: here.csrf });
}

/** @param {Call} call @param {string} path */
async function api(call, path) {
  const { request, response, here } = call;
  if (here.cut) return void request.socket.destroy();
  if (path === "/session") return session(call);
  if (!here.signed_in) return problem(response, 401, "Not signed in", "Send a token.");
  const method = request.method ?? "GET";
  if (method !== "GET" && request.headers["x-catchment-csrf"] !== here.csrf) {
    return problem(response, 403, "Wrong CSRF token", "The header X-Catchment-CSRF is not the session's.");
  }
  if (method !== "GET" && here.role === "viewer") return problem(response, 403, "Not allowed", "A viewer may only look.");
  for (const [verb, pattern, handle] of ROUTES) {
    const match = pattern.exec(path);
    if (match && verb === method) return handle({ ...call, match: match.map(decodeURIComponent) });
  }
  return problem(response, 404, "Not found", path);
}

/** @param {Call} call */
function mock({ here, url, response }) {
  const what = url.pathname.slice("/mock/".length);
  if (what === "set") here.set(url.searchParams.get("scenario") ?? "good");
  if (what === "cut") here.cut = true;
  // As when somebody else stops the run and starts the next.
  if (what === "next") {
    here.end("configured");
    here.begin(0, "");
  }
  if (what === "mute") here.muted = true;
  if (what === "heal") Object.assign(here, { cut: false, muted: false });
  if (what === "release" && here.under_way) {
    const result = here.results.get(here.under_way.request);
    here.carryOut({ ...here.under_way, device: null, comment: null, configuration: null, run: null });
    if (result) Object.assign(result, { status: "done", state: here.state });
    here.under_way = null;
  }
  if (here.cut) here.tell("cut", null);
  json(response, {});
}

const server = createServer(async (request, response) => {
  try {
    const url = new URL(request.url ?? "/", "http://mock");
    const call = { request, response, url, here: world(request, response, url), match: [] };
    if (url.pathname.startsWith("/api/v1/")) await api(call, url.pathname.slice("/api/v1".length));
    else if (url.pathname.startsWith("/mock/")) mock(call);
    else await page(response, url.pathname);
  } catch (error) {
    if (!response.headersSent) problem(response, 500, "Broken mock", String(error));
    else response.destroy();
  }
});
server.listen(PORT, "127.0.0.1", () => console.log(`The mock listens on http://127.0.0.1:${PORT}/?scenario=good`));
