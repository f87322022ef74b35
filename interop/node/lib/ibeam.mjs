// Starts the binary under test and tells where it listens.

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

const START_LIMIT_MS = 20_000;
const LOG_LIMIT_MS = 10_000;

/** A port that was free a moment ago. */
export async function freePort() {
  const server = createServer();
  await new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/**
 * A child process with its own empty home folder, so that no configuration or
 * credential of the machine takes part. `ready` is polled until it resolves.
 */
export async function start(program, args, env, ready) {
  const home = mkdtempSync(join(tmpdir(), "ibeam-interop-"));
  const child = spawn(program, args, {
    cwd: home,
    env: { PATH: process.env.PATH, HOME: home, XDG_CACHE_HOME: join(home, "cache"), ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  const watchers = new Set();
  for (const stream of [child.stdout, child.stderr]) {
    createInterface({ input: stream }).on("line", (line) => {
      output = `${output}${line}\n`.slice(-20_000);
      for (const watcher of watchers) watcher(line);
    });
  }
  const ended = new Promise((resolve) => child.once("close", resolve));
  let failed;
  child.once("error", (error) => {
    failed = error;
  });

  const deadline = Date.now() + START_LIMIT_MS;
  for (;;) {
    if (failed || child.exitCode !== null) {
      throw new Error(`${program} ${args.join(" ")} did not start: ${failed ?? child.exitCode}\n${output}`);
    }
    if (await ready(() => output).catch(() => false)) break;
    if (Date.now() > deadline) {
      child.kill("SIGKILL");
      throw new Error(`${program} ${args.join(" ")} was not ready in time\n${output}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return {
    output: () => output,
    /** Calls back with each line that it writes from now on. */
    watch: (watcher) => watchers.add(watcher),
    async stop() {
      child.kill("SIGTERM");
      const timer = setTimeout(() => child.kill("SIGKILL"), 5_000);
      await ended;
      clearTimeout(timer);
      rmSync(home, { recursive: true, force: true });
    },
  };
}

export function binary() {
  const path = process.env.IBEAM_BIN;
  if (!path) throw new Error("IBEAM_BIN must name the ibeam binary");
  return path;
}

async function healthy(url) {
  const answer = await fetch(`${url}/health`);
  return answer.ok;
}

/** `ibeam up --sim`: the gateway with the simulator in the same process. */
export async function up(env = {}, flags = []) {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const scenario = ["--scenario", process.env.IBEAM_SCENARIO, "--log-level", "debug"];
  const args = ["up", "--sim", ...scenario, ...flags];
  const child = await start(binary(), args, { PORT: String(port), ...env }, () => healthy(url));
  return { ...child, url, baseURL: `${url}/v1`, opened: counter(child, url) };
}

/**
 * How many upstream streams the gateway opened so far. Its log is written in order, so when
 * the line of a request that is made now is there, all before it are.
 */
function counter(child, url) {
  let opened = 0;
  let marks = 0;
  const awaited = new Map();
  child.watch((line) => {
    if (line.includes("opening an upstream stream")) opened += 1;
    const id = line.match(/request_id=(mark-\d+) /)?.[1];
    awaited.get(id)?.(opened);
  });
  return async () => {
    const mark = `mark-${(marks += 1)}`;
    const seen = new Promise((resolve) => awaited.set(mark, resolve));
    await fetch(`${url}/health`, { headers: { "x-request-id": mark } });
    const late = new Promise((_, reject) => {
      setTimeout(() => reject(new Error(`${mark} is not in the log:\n${child.output()}`)), LOG_LIMIT_MS).unref();
    });
    return Promise.race([seen, late]);
  };
}

/** `ibeam serve` against some other backend. */
export async function serve(backend, token, env = {}) {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const child = await start(
    binary(),
    ["serve"],
    { PORT: String(port), CURSOR_API_URL: backend, CURSOR_ACCESS_TOKEN: token, ...env },
    () => healthy(url),
  );
  return { ...child, url, baseURL: `${url}/v1` };
}

/** The token that the simulator accepts. */
export function simToken() {
  return execFileSync(binary(), ["sim", "--token"], { encoding: "utf8" }).trim();
}

/** `ibeam sim`: the simulator alone, with these flags. */
export async function sim(...flags) {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const child = await start(binary(), ["sim", "--port", String(port), ...flags], {}, async () => {
    // Any answer will do: a port that listens.
    await fetch(url);
    return true;
  });
  return { ...child, url };
}

/** A token in the shape of Cursor's: three parts, valid for a day, signed by nobody. */
export function token() {
  const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const now = Math.floor(Date.now() / 1000);
  const claims = {
    iss: "https://authentication.cursor.sh",
    aud: "https://cursor.com",
    sub: "auth0|user_interop",
    scope: "openid profile email offline_access",
    type: "session",
    time: String(now),
    exp: now + 86_400,
  };
  return `${part({ alg: "HS256", typ: "JWT" })}.${part(claims)}.${Buffer.from("interop").toString("base64url")}`;
}
