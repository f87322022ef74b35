// OpenCode: all three APIs, by the packages it has for them.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { chat, messages, responses } from "./lib/apis.mjs";
import { does, doesNatively, program } from "./lib/work.mjs";

const client = (api, npm, model) => (tools, wanted = {}) => ({
  api,
  tools,
  wanted,
  launch({ home, url, text }) {
    const dirs = { XDG_CONFIG_HOME: "config", XDG_DATA_HOME: "data", XDG_STATE_HOME: "state", XDG_CACHE_HOME: "cache" };
    const env = {
      OPENCODE_DISABLE_AUTOUPDATE: "1",
      OPENCODE_DISABLE_MODELS_FETCH: "1",
      OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
      OPENCODE_DISABLE_DEFAULT_PLUGINS: "1",
    };
    for (const [name, folder] of Object.entries(dirs)) env[name] = join(home, folder);
    const settings = join(home, "config/opencode");
    mkdirSync(join(settings, "node_modules"), { recursive: true });
    // It would install its plugin package here otherwise, and wait for a registry.
    const lock = { packages: { "": { dependencies: { "@opencode-ai/plugin": "*" } } } };
    writeFileSync(join(settings, "package-lock.json"), JSON.stringify(lock));
    const config = {
      autoupdate: false,
      share: "disabled",
      model: `ibeam/${model}`,
      small_model: `ibeam/${model}`,
      provider: {
        ibeam: {
          npm,
          options: { baseURL: `${url}/v1`, apiKey: "ibeam" },
          models: { [model]: { limit: { context: 200_000, output: 32_000 } } },
        },
      },
      permission: { "*": "allow" },
    };
    writeFileSync(join(settings, "opencode.json"), JSON.stringify(config));
    return { line: [program("opencode"), "run", "--format", "json", text], env };
  },
  answer(out) {
    const events = out.split("\n").filter(Boolean).map((line) => JSON.parse(line));
    return events.filter((event) => event.type === "text").map((event) => event.part.text).join("\n");
  },
});

// Cursor edits by reading the file and writing it.
const [own, native] = [["read", "edit", "write", "bash"], ["read", "read", "write", "write", "bash"]];
// A family of models gets a tool for patches instead. A patch is made of whole lines, so the
// gateway writes a file that does not end with one by the shell.
const patches = ["read", "apply_patch", "apply_patch", "bash"];
const nativePatches = ["read", "read", "apply_patch", "bash", "bash"];

const [byChat, byResponses, byMessages] = [
  client(chat, "@ai-sdk/openai-compatible", "gpt-4o"),
  client(responses, "@ai-sdk/openai", "gpt-5.5"),
  client(messages, "@ai-sdk/anthropic", "claude-sonnet-4-5"),
];
does("chat", byChat(own));
doesNatively("chat", byChat(native));
does("responses", byResponses(patches, { lines: true }));
doesNatively("responses", byResponses(nativePatches));
does("messages", byMessages(own));
doesNatively("messages", byMessages(native));
