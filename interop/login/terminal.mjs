// A terminal with a shell in it, kept by a tmux server of its own: what is typed, and
// what stands on the screen.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const LIMIT_MS = 30_000;

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const open = new Set();
process.on("exit", () => open.forEach((terminal) => terminal.close()));
for (const name of ["SIGINT", "SIGTERM", "SIGHUP"]) process.once(name, () => process.exit(1));

export class Terminal {
  /** Its settings before anything ran in it. */
  first;
  #socket;
  #raw;

  /** `room` holds its files; `env` is all that the shell gets. */
  static async open(room, env, size) {
    const terminal = new Terminal(room, env, size);
    await terminal.shows(/^\$/);
    terminal.first = terminal.settings();
    return terminal;
  }

  constructor(room, env, { columns, rows }) {
    this.#socket = join(room, "tmux");
    this.#raw = join(room, "raw");
    const pairs = Object.entries({ PS1: "$ ", TERM: "screen", LANG: "C.UTF-8", ...env });
    const shell = ["env", "-i", ...pairs.map(([name, value]) => `${name}=${value}`), "sh"];
    this.#tmux("new-session", "-d", "-x", String(columns), "-y", String(rows), ...shell);
    open.add(this);
    // Every byte that is written to the terminal.
    this.#tmux("pipe-pane", "-o", `cat >> '${this.#raw}'`);
  }

  /** Ends the shell and whatever runs in it. */
  close() {
    if (open.delete(this)) this.#tmux("kill-server");
  }

  #tmux(...args) {
    const line = ["-u", "-S", this.#socket, "-f", "/dev/null", ...args];
    // A tmux around us is none of our business.
    return execFileSync("tmux", line, { encoding: "utf8", env: { PATH: process.env.PATH, LANG: "C.UTF-8" } });
  }

  /** The rows as they are. */
  rows() {
    return this.#tmux("capture-pane", "-p").split("\n").map((row) => row.trimEnd());
  }

  /** What would be copied: rows that the terminal wrapped are one line. */
  text() {
    const text = this.#tmux("capture-pane", "-p", "-J");
    return text.split("\n").map((line) => line.trimEnd()).join("\n").trimEnd();
  }

  /** All that was written to it, control codes included. */
  raw() {
    return readFileSync(this.#raw, "utf8");
  }

  type(text) {
    this.letters(text);
    this.#tmux("send-keys", "Enter");
  }

  /** Types without an end of the line. */
  letters(text) {
    this.#tmux("send-keys", "-l", text);
  }

  /** Types a command on an empty screen; its exit code will stand behind `=>`. */
  run(command) {
    this.#tmux("send-keys", "-R");
    this.#tmux("clear-history");
    this.type(`${command}; echo "=> $?"`);
  }

  /** A key by its name. */
  key(name) {
    this.#tmux("send-keys", name);
  }

  /** Waits until the screen shows this, and gives the match. */
  shows(pattern, limit = LIMIT_MS) {
    return until(() => this.text(), pattern, limit);
  }

  /** Waits until this was written to it. */
  wrote(pattern, limit = LIMIT_MS) {
    return until(() => this.raw(), pattern, limit);
  }

  /** Waits for the end of the command: its exit code, and the lines it left. */
  async ends(limit = LIMIT_MS) {
    const [, code] = await this.shows(/^=> (\d+)$/m, limit);
    const lines = this.text().split("\n");
    const last = lines.findIndex((line) => line.startsWith("=> "));
    return { code: Number(code), lines: lines.slice(1, last) };
  }

  /** What the kernel does with what is typed and written. */
  settings() {
    return execFileSync("stty", ["-a", "-F", this.fact("pane_tty")], { encoding: "utf8" });
  }

  /** What tmux knows about the terminal, such as `cursor_flag`. */
  fact(name) {
    return this.#tmux("display-message", "-p", `#{${name}}`).trim();
  }
}

async function until(look, pattern, limit) {
  for (const deadline = Date.now() + limit; ; ) {
    const text = look();
    const match = text.match(pattern);
    if (match) return match;
    if (Date.now() > deadline) throw new Error(`${pattern} is not there:\n${text}`);
    await pause(50);
  }
}
