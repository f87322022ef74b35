// Signing in. The program does it and keeps what comes of it; OpenCode's store gets a word
// that says so, and no secret.

import type { AuthHook, AuthOAuthResult } from "@opencode-ai/plugin";
import { type Run, run } from "./child.js";
import { isBag } from "./options.js";

/** What OpenCode's `auth.json` holds: that the program has the sign-in. */
export const MARKER = "ibeam";

const LINK_MS = 20_000;
/** The link itself lives for 23 minutes. */
const LOGIN_MS = 25 * 60_000;
const KEY_MS = 90_000;
const KEYS_PAGE = "https://cursor.com/dashboard";

type Find = () => { path: string } | { missing: string };
type Say = (text: string) => void;

/** Sign-ins that wait for the user. They end when OpenCode does. */
const waiting = new Set<Run>();
process.once("exit", () => waiting.forEach((child) => child.stop()));

export function methods(find: Find, flags: () => string[], say: Say): AuthHook["methods"] {
  return [
    { type: "oauth", label: "Sign in with Cursor", authorize: () => withBrowser(find, flags(), say) },
    {
      // As `type: "api"` OpenCode would keep the key itself, and show it to no plugin.
      type: "oauth",
      label: "Cursor API key",
      prompts: [
        {
          type: "text",
          key: "key",
          message: `API key (from ${KEYS_PAGE})`,
          placeholder: "crsr_…",
          validate: (value) => (value.trim() ? undefined : "Required"),
        },
      ],
      authorize: (inputs) => withKey(find, flags(), say, inputs?.["key"] ?? ""),
    },
  ];
}

async function withBrowser(find: Find, flags: string[], say: Say): Promise<AuthOAuthResult> {
  const found = find();
  if ("missing" in found) return failed(found.missing, say);
  const child = run(found.path, ["login", "--no-browser", "--json", ...forLogin(flags)], LOGIN_MS);
  waiting.add(child);
  void child.ended.then(() => waiting.delete(child));
  const link = readLink(await child.line(LINK_MS));
  if (!link) {
    child.stop();
    return failed(`\`ibeam login\` did not print a link: ${child.words() || "no answer"}`, say);
  }
  return {
    url: link,
    instructions: "Open the link in a browser, on any device, and sign in to Cursor there.",
    method: "auto",
    callback: () => outcome(child, say),
  };
}

async function withKey(find: Find, flags: string[], say: Say, key: string): Promise<AuthOAuthResult> {
  const found = find();
  if ("missing" in found) return failed(found.missing, say);
  const { path } = found;
  return {
    url: "",
    instructions: "ibeam stores the key; OpenCode does not.",
    method: "auto",
    callback: () => outcome(handOver(path, flags, key), say),
  };
}

/** Those of `ibeam start`'s flags that say where a sign-in is kept. */
export function forLogin(flags: string[]): string[] {
  const names = ["--profile", "--config", "--set"];
  return flags.filter((flag, at) => names.includes(flag.split("=")[0] ?? "") || names.includes(flags[at - 1] ?? ""));
}

/** Gives an API key to the program, over a private pipe. */
export function handOver(path: string, flags: string[], key: string): Run {
  return run(path, ["login", "--api-key-stdin", ...forLogin(flags)], KEY_MS, `${key.trim()}\n`);
}

async function outcome(child: Run, say: Say): Promise<{ type: "success"; key: string } | { type: "failed" }> {
  const code = await child.ended;
  if (code === 0) return { type: "success", key: MARKER };
  say(`signing in failed: ${child.words() || "it timed out"}`);
  return { type: "failed" };
}

/** A method must not throw: it fails, and says why. */
function failed(why: string, say: Say): AuthOAuthResult {
  say(why);
  return { url: "", instructions: `ibeam: ${why}`, method: "auto", callback: async () => ({ type: "failed" }) };
}

export function readLink(line: string | undefined): string | undefined {
  try {
    const value: unknown = JSON.parse(line ?? "");
    if (!isBag(value) || value["event"] !== "link" || typeof value["url"] !== "string") return undefined;
    return /^https?:$/.test(new URL(value["url"]).protocol) ? value["url"] : undefined;
  } catch {
    return undefined;
  }
}
