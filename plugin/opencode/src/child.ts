// The program, run to its end within a time and a number of bytes.

import { type ChildProcess, spawn } from "node:child_process";

const OUT_CAP = 1_000_000;
const ERR_CAP = 8_000;

export interface Run {
  /** Resolves with each line of stdout; `undefined` when there are no more. */
  line(ms: number): Promise<string | undefined>;
  /** The exit code, or `null` when it was ended. */
  ended: Promise<number | null>;
  /** Its last words, as one line. */
  words(): string;
  stop(): void;
}

/** Starts it. Nothing of the user's terminal goes to it, and it never outlives `ms`. */
export function run(program: string, args: string[], ms: number, input?: string): Run {
  const lines: string[] = [];
  let rest = "";
  let size = 0;
  let err = "";
  let over = false;
  let wake: () => void = () => {};
  let child: ChildProcess | undefined;
  const stop = (): void => {
    if (!over) child?.kill("SIGKILL");
  };
  const timer = setTimeout(stop, ms);
  timer.unref?.();
  const ended = new Promise<number | null>((resolve) => {
    const finish = (code: number | null): void => {
      over = true;
      clearTimeout(timer);
      wake();
      resolve(code);
    };
    try {
      // Its own variables are settings, and this one is not.
      const { IBEAM_BIN: _, ...env } = process.env;
      child = spawn(program, args, { env, stdio: [input === undefined ? "ignore" : "pipe", "pipe", "pipe"], windowsHide: true });
    } catch (error) {
      err = String(error);
      finish(null);
      return;
    }
    child.once("error", (error) => {
      err += String(error.message);
      finish(null);
    });
    child.once("close", (code) => finish(code));
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      size += text.length;
      if (size > OUT_CAP) return stop();
      const parts = (rest + text).split("\n");
      rest = parts.pop() ?? "";
      lines.push(...parts);
      wake();
    });
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      err = (err + text).slice(-ERR_CAP);
    });
    // It may end before it has read all.
    child.stdin?.on("error", () => {});
    child.stdin?.end(input);
  });
  const line = async (limit: number): Promise<string | undefined> => {
    const deadline = Date.now() + limit;
    for (;;) {
      const next = lines.shift();
      if (next !== undefined) return next;
      const left = deadline - Date.now();
      if (over || left <= 0) return undefined;
      await new Promise<void>((resolve) => {
        const bell = setTimeout(resolve, left);
        wake = () => {
          clearTimeout(bell);
          resolve();
        };
      });
    }
  };
  return { line, ended, words: () => oneLine(err), stop };
}

/** What it said went wrong, without its colours and labels. */
export function oneLine(text: string): string {
  const plain = text.replace(/\u001b\[[0-9;]*m/g, "");
  const lines = plain.split("\n").map((part) => part.trim()).filter(Boolean);
  const error = lines.find((part) => part.startsWith("error:")) ?? lines[0] ?? "";
  const hint = lines.find((part) => part.startsWith("hint:"));
  const words = [error.replace(/^error:\s*/, ""), hint?.replace(/^hint:\s*/, "")].filter(Boolean).join("; ");
  return words.slice(0, 300);
}
