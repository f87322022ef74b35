// Codex: Responses, with a shell and patches.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { responses } from "./lib/apis.mjs";
import { does, doesNatively, program } from "./lib/work.mjs";

/** A provider of one's own is spoken to by HTTP. */
const provider = (url) => `
  model_provider = "ibeam"
  [model_providers.ibeam]
  name = "ibeam"
  base_url = "${url}/v1"
  env_key = "CODEX_API_KEY"
  wire_api = "responses"
`;
/** The built-in one, at another address: by a WebSocket, and HTTP where that is refused. */
const builtIn = (url) => `openai_base_url = "${url}/v1"`;

const client = (model, tools, { wanted = {}, reach = provider } = {}) => ({
  api: responses,
  tools,
  wanted,
  socket: reach === builtIn,
  launch({ home, url, text }) {
    const folder = join(home, ".codex");
    mkdirSync(folder);
    const config = `
      model = "${model}"
      check_for_update_on_startup = false
      ${reach(url)}
      [analytics]
      enabled = false
      [features]
      plugins = false
      apps = false
    `;
    writeFileSync(join(folder, "config.toml"), config);
    const free = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"];
    return { line: [program("codex"), "exec", ...free, text], env: { CODEX_API_KEY: "ibeam" } };
  },
});

const lines = { lines: true };
const [run, patch] = ["exec_command", "apply_patch"];
does("with its tools", client("gpt-5.5", [run, patch, patch, run], { wanted: lines }));
// Cursor edits by reading the file and writing it. A patch is made of whole lines, so the
// gateway writes a file that does not end with one by the shell.
doesNatively("with its tools", client("gpt-5.5", [run, run, patch, run, run]));
// Newer models get one tool, which runs scripts that call the others.
does("with scripts", client("gpt-5.6-sol", ["exec", "exec", "exec", "exec"], { wanted: lines }));
does("over a WebSocket", client("gpt-5.5", [run, patch, patch, run], { wanted: lines, reach: builtIn }));
