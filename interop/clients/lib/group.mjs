// Child processes that never outlive the test: each is the head of a process group, and
// the whole group is ended, whatever it started meanwhile.

import { spawn } from "node:child_process";

const KILL_AFTER_MS = 5_000;
const KEEP = 4_000_000;
const running = new Set();

function signal(child, name) {
  try {
    process.kill(-child.pid, name);
  } catch (error) {
    if (error.code !== "ESRCH") throw error;
  }
}

process.on("exit", () => {
  for (const child of running) signal(child, "SIGKILL");
});
for (const name of ["SIGINT", "SIGTERM", "SIGHUP"]) process.once(name, () => process.exit(1));

/** Starts a program; `out` and `err` give what it wrote so far. `input` leaves its stdin open, for `write`. */
export function start(program, args, { cwd, env, input = false }) {
  const stdio = [input ? "pipe" : "ignore", "pipe", "pipe"];
  const child = spawn(program, args, { cwd, env, detached: true, stdio });
  child.stdin?.on("error", () => {});
  const text = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"]) {
    child[name].setEncoding("utf8").on("data", (chunk) => {
      text[name] = (text[name] + chunk).slice(-KEEP);
    });
  }
  const ended = new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, by) => {
      running.delete(child);
      resolve({ code, signal: by });
    });
  });
  ended.catch(() => {});
  if (child.pid !== undefined) running.add(child);
  return {
    pid: child.pid,
    ended,
    write: (text) => child.stdin.write(text),
    out: () => text.stdout,
    err: () => text.stderr,
    async stop() {
      if (!running.has(child)) return;
      signal(child, "SIGTERM");
      const timer = setTimeout(() => signal(child, "SIGKILL"), KILL_AFTER_MS);
      await ended.finally(() => clearTimeout(timer));
    },
  };
}

/** Waits for a condition, as long as the program lives and the time lasts. */
export async function until(child, what, limit, ready) {
  let over = null;
  child.ended.then(
    (end) => (over = `ended with ${end.code ?? end.signal}`),
    (error) => (over = String(error)),
  );
  for (const deadline = Date.now() + limit; ; ) {
    const value = await ready();
    if (value) return value;
    if (over) throw new Error(`${what}: the program ${over}\n${child.err()}`);
    if (Date.now() > deadline) throw new Error(`${what}: not within ${limit} ms\n${child.err()}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}
