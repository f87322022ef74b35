// Clients that `ibeam setup` wired, over settings that their user had: each does a piece of work
// with them, and `ibeam undo` puts every byte back.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { chat, messages, responses } from "./lib/apis.mjs";
import { bySetup } from "./lib/setup.mjs";
import { does, program } from "./lib/work.mjs";

const claude = ({ text }) => ({
  line: [program("claude"), "-p", text, "--dangerously-skip-permissions"],
  env: {
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    DISABLE_AUTOUPDATER: "1",
    // Root may skip permissions only where it says that nothing can be lost.
    IS_SANDBOX: "1",
  },
});
const claudeTools = ["Read", "Edit", "Write", "Bash"];
const settings = ".claude/settings.json";

does("Claude Code, new here", {
  api: messages,
  tools: claudeTools,
  launch: bySetup("claude-code", { changed: [settings], run: claude }),
});
does("Claude Code, with settings", {
  api: messages,
  tools: claudeTools,
  launch: bySetup("claude-code", {
    there: { [settings]: '{\n\t"includeCoAuthoredBy": false,\n\t"env": {\n\t\t"MINE": "1"\n\t}\n}\n' },
    changed: [settings],
    run: claude,
  }),
});

const codex = ({ text }) => {
  const free = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"];
  return { line: [program("codex"), "exec", "-m", "gpt-5.5", ...free, text] };
};
does("Codex, with settings", {
  api: responses,
  tools: ["exec_command", "apply_patch", "apply_patch", "exec_command"],
  wanted: { lines: true },
  launch: bySetup("codex", {
    there: {
      ".codex/config.toml": `# mine
check_for_update_on_startup = false # slow here

[analytics]
enabled = false

[features]
plugins = false
apps = false
`,
    },
    changed: [".codex/config.toml"],
    run: codex,
  }),
});

does("OpenCode, with settings", {
  api: chat,
  tools: ["read", "edit", "write", "bash"],
  launch: bySetup("opencode", {
    // It adds the schema by itself where it is missing, and that would stay.
    there: {
      ".config/opencode/opencode.jsonc": `{
  "$schema": "https://opencode.ai/config.json",
  "autoupdate": false,
  "share": "disabled", // mine
  "permission": { "*": "allow" },
}
`,
    },
    changed: [".config/opencode/opencode.jsonc"],
    run({ home, text }) {
      // It would install its plugin package here otherwise, and wait for a registry.
      const folder = join(home, ".config/opencode");
      const lock = { packages: { "": { dependencies: { "@opencode-ai/plugin": "*" } } } };
      mkdirSync(join(folder, "node_modules"));
      writeFileSync(join(folder, "package-lock.json"), JSON.stringify(lock));
      const off = ["AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "DEFAULT_PLUGINS"];
      const env = Object.fromEntries(off.map((name) => [`OPENCODE_DISABLE_${name}`, "1"]));
      return { line: [program("opencode"), "run", "--format", "json", text], env };
    },
  }),
  answer(out) {
    const events = out.split("\n").filter(Boolean).map((line) => JSON.parse(line));
    return events.filter((event) => event.type === "text").map((event) => event.part.text).join("\n");
  },
});
