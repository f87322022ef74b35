// What `docs/clients` tells people to copy: put into an empty home, with only the address
// another one, it must be all that a real client needs to do a piece of work.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { chat, messages, responses } from "./lib/apis.mjs";
import { serve } from "./lib/gateway.mjs";
import { start } from "./lib/group.mjs";
import { follow, programs } from "./lib/pages.mjs";
import { does, newerNode, program } from "./lib/work.mjs";

const { IBEAM_AIDER: aider, IBEAM_LLM: llm, IBEAM_NODE: node, IBEAM_PYTHON: python } = process.env;
const here = dirname(fileURLToPath(import.meta.url));
const RUN_MS = 120_000;

/** A client that does its work with what its page says, and flags for a run without a person. */
const client = (page, api, tools, line, { env = {}, wanted = {}, prepare = () => {}, answer } = {}) => ({
  api,
  tools,
  wanted,
  answer,
  launch({ home, project, url, text, file }) {
    const own = follow(page, home, url);
    prepare({ home, project });
    return { line: line(text, file), env: { ...env, ...own } };
  },
});

const free = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"];
const quick = ["-c", "check_for_update_on_startup=false", "-c", "analytics.enabled=false"];
const alone = ["-c", "features.plugins=false", "-c", "features.apps=false"];
does(
  "codex",
  client(
    "codex",
    responses,
    ["exec_command", "apply_patch", "apply_patch", "exec_command"],
    (text) => [program("codex"), "exec", ...free, ...quick, ...alone, text],
    { wanted: { lines: true } },
  ),
);

does(
  "claude-code",
  client(
    "claude-code",
    messages,
    ["Read", "Edit", "Write", "Bash"],
    // The one it takes by itself depends on the day.
    (text) => [program("claude"), "-p", text, "--model", "claude-sonnet-4-5", "--dangerously-skip-permissions"],
    { env: { DISABLE_AUTOUPDATER: "1", IS_SANDBOX: "1" } },
  ),
);

does(
  "pi",
  client(
    "pi",
    chat,
    ["read", "edit", "write", "bash"],
    (text) => [newerNode, program("pi"), "-p", "--no-session", "--provider", "ibeam", "--model", "gpt-5.5", text],
    { env: { PI_OFFLINE: "1" } },
  ),
);

const still = ["AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS"];
does(
  "opencode",
  client(
    "opencode",
    chat,
    ["read", "edit", "write", "bash"],
    (text) => [program("opencode"), "run", "--format", "json", text],
    {
      env: Object.fromEntries(still.map((name) => [`OPENCODE_DISABLE_${name}`, "1"])),
      // It would install its plugin package there otherwise, and wait for a registry.
      prepare({ home }) {
        const settings = join(home, ".config/opencode");
        mkdirSync(join(settings, "node_modules"));
        const lock = { packages: { "": { dependencies: { "@opencode-ai/plugin": "*" } } } };
        writeFileSync(join(settings, "package-lock.json"), JSON.stringify(lock));
      },
      answer(out) {
        const events = out.split("\n").filter(Boolean).map((line) => JSON.parse(line));
        return events.filter(({ type }) => type === "text").map(({ part }) => part.text).join("\n");
      },
    },
  ),
);

const silent = ["--analytics-disable", "--no-check-update", "--no-show-release-notes"];
const plain = ["--no-pretty", "--no-fancy-input", "--no-gitignore", "--no-auto-commits", "--yes-always"];
does(
  "aider",
  client("aider", chat, [], (text, file) => [join(aider, "bin/aider"), ...silent, ...plain, "--message", text, file], {
    env: { LITELLM_LOCAL_MODEL_COST_MAP: "True" },
    wanted: { shell: false, lines: true },
    prepare({ home, project }) {
      execFileSync("git", ["init", "--quiet", project]);
      writeFileSync(join(home, ".gitconfig"), "[user]\nname = Somebody\nemail = somebody@example.com\n");
      // It would fetch its list of models otherwise.
      const packages = join(aider, "lib", readdirSync(join(aider, "lib"))[0], "site-packages");
      const prices = join(packages, "litellm/model_prices_and_context_window_backup.json");
      cpSync(prices, join(home, ".aider/caches/model_prices_and_context_window.json"));
    },
  }),
);

const functions = ["--functions", join(here, "llm_functions.py"), "--chain-limit", "0"];
does(
  "llm",
  client("llm", chat, ["read_file", "str_replace", "write_file", "run_command"], (text) => [
    join(llm, "bin/llm"),
    "-m",
    "ibeam/auto",
    ...functions,
    text,
  ]),
);

const RUNNERS = { sh: ["sh", "-eu"], py: [python, "-B"], mjs: ["node"] };
for (const { name, text } of programs("env")) {
  test(name, { timeout: 2 * RUN_MS }, async (t) => {
    const room = mkdtempSync(join(tmpdir(), "ibeam-page-"));
    t.after(() => rmSync(room, { recursive: true, force: true, maxRetries: 5 }));
    const gateway = await serve(t, room, "");
    // Packages are found from the script's own place upwards.
    symlinkSync(join(node, "node_modules"), join(room, "node_modules"));
    writeFileSync(join(room, name), text);
    const env = { PATH: process.env.PATH, HOME: room, ...follow("env", room, gateway.url) };
    const [runner, ...flags] = RUNNERS[name.split(".").at(-1)];
    const running = start(runner, [...flags, name], { cwd: room, env });
    t.after(() => running.stop());
    const limit = setTimeout(() => running.stop(), RUN_MS);
    const end = await running.ended.finally(() => clearTimeout(limit));
    const story = `${running.out()}\n${running.err()}\n${gateway.log().slice(-3_000)}`;
    assert.equal(end.code, 0, story);
    assert.match(running.out(), /7 degrees and rain/, story);
    assert.equal(running.err(), "", story);
    // A chain of calls is one run; curl has asked for a streamed answer before it.
    assert.equal(gateway.opened().length, name.endsWith(".sh") ? 2 : 1, story);
    if (name.endsWith(".sh")) assert.match(running.out(), /^data: \[DONE\]$/m, story);
  });
}
