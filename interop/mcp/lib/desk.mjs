// A folder with settings of its own, and the binary under test run in it.

import { execFile, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const LIMIT_MS = 60_000;
const START_LIMIT_MS = 20_000;

/** Where the packages are. */
export const modules = join(dirname(dirname(fileURLToPath(import.meta.url))), "node_modules");

/** The entry of a public server. */
export function server(name) {
  return join(modules, "@modelcontextprotocol", `server-${name}`, "dist", "index.js");
}

export function binary() {
  const path = process.env.IBEAM_BIN;
  if (!path) throw new Error("IBEAM_BIN must name the ibeam binary");
  return path;
}

/** A home without anything of this machine in it. `settings` is TOML. */
export function desk(settings) {
  const home = mkdtempSync(join(tmpdir(), "ibeam-mcp-"));
  const config = join(home, "config.toml");
  writeFileSync(config, settings, { mode: 0o600 });
  const env = { PATH: process.env.PATH, HOME: home, XDG_CONFIG_HOME: home, XDG_CACHE_HOME: home };
  const line = (args) => ["--config", config, ...args];
  return {
    home,
    /** Runs a command to its end. */
    run(...args) {
      return new Promise((resolve) => {
        const options = { cwd: home, env, timeout: LIMIT_MS };
        execFile(binary(), line(args), options, (error, stdout, stderr) => {
          resolve({ code: error ? error.code : 0, stdout, stderr });
        });
      });
    },
    /** Starts a gateway; gives its URL and a way to end it. */
    async serve(...args) {
      const child = spawn(binary(), line(["serve", "--port", "0", ...args]), { cwd: home, env });
      return await started(child, /(http:\/\/127\.0\.0\.1:\d+)/);
    },
    done: () => rmSync(home, { recursive: true, force: true }),
  };
}

/** Starts a public server behind HTTP; gives its URL and a way to end it. */
export async function everything(transport) {
  const port = await freePort();
  const env = { PATH: process.env.PATH, PORT: String(port) };
  const child = spawn(process.execPath, [server("everything"), transport], { env });
  const running = await started(child, /listening|running on port/i);
  return { ...running, url: `http://127.0.0.1:${port}` };
}

function started(child, pattern) {
  return new Promise((resolve, reject) => {
    let output = "";
    const fail = (why) => reject(new Error(`${why}\n${output}`));
    const timer = setTimeout(() => {
      child.kill("SIGKILL");
      fail("was not ready in time");
    }, START_LIMIT_MS);
    const ended = new Promise((done) => child.once("close", done));
    const hear = (chunk) => {
      output += chunk;
      const found = output.match(pattern);
      if (!found) return;
      clearTimeout(timer);
      const stop = async () => {
        child.kill("SIGTERM");
        await ended;
      };
      resolve({ url: found[1], output: () => output, stop });
    };
    child.stdout.on("data", hear);
    child.stderr.on("data", hear);
    child.once("error", fail);
    child.once("close", (code) => fail(`ended with ${code}`));
  });
}

async function freePort() {
  const listener = createServer();
  await new Promise((resolve) => listener.listen(0, "127.0.0.1", resolve));
  const { port } = listener.address();
  await new Promise((resolve) => listener.close(resolve));
  return port;
}
