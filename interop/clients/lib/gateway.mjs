// `ibeam up --sim` in a folder of its own, watched by strace where there is one.

import { readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { start, until } from "./group.mjs";

const ibeam = process.env.IBEAM_BIN;
const strace = process.env.IBEAM_STRACE;
const START_MS = 30_000;

/**
 * How the simulated service offers tools, and the way to it: each client gets another pairing,
 * and the step `client-matrix` gives all of them to all.
 */
const PAIRINGS = {
  opencode: ["meta", "h2"],
  "claude-code": ["direct", "h2"],
  codex: ["meta", "h1"],
  pi: ["direct", "h1"],
  continue: ["meta-old-names", "h2"],
};

function pairing() {
  const client = basename(process.argv[1] ?? "").replace(/\.test\.mjs$/, "");
  const [tools, transport] = process.env.IBEAM_PAIRING?.split(",") ?? PAIRINGS[client] ?? [];
  if (!tools) return [];
  return ["--switch", `tools.mode=${tools}`, "--set", `transport=${transport}`];
}

export async function serve(t, folder, scenario) {
  const [file, trace] = [join(folder, "scenario.toml"), join(folder, "trace")];
  writeFileSync(file, scenario);
  const line = [ibeam, "up", "--sim", "--scenario", file, "--port", "0", "--log-level", "debug", ...pairing()];
  const watch = ["-f", "-qq", "-s", "4096", "-e", "trace=%file,%process", "-o", trace];
  const [program, ...args] = strace ? [strace, ...watch, ...line] : line;
  const child = start(program, args, { cwd: folder, env: { PATH: process.env.PATH, HOME: folder } });
  t.after(() => child.stop());
  const url = await until(child, "ibeam up --sim", START_MS, () =>
    child.err().match(/listening[^\n]*?(http:\/\/)?(127\.0\.0\.1:\d+)/)?.[2],
  );
  return {
    url: `http://${url}`,
    log: child.err,
    /** The requests that opened a run, one entry for each run. */
    opened: () =>
      child
        .err()
        .split("\n")
        .filter((line) => line.includes("opening an upstream stream"))
        .map((line) => line.match(/request_id=(\w+)/)?.[1]),
    stop: child.stop,
    /** The system calls of the process, once it has stopped; `null` when not watched. */
    calls: () => (strace ? readFileSync(trace, "utf8") : null),
  };
}
