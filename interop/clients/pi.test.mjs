// pi: a strict reader of all three APIs.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { chat, messages, responses } from "./lib/apis.mjs";
import { bySetup } from "./lib/setup.mjs";
import { does, doesNatively, newerNode, program } from "./lib/work.mjs";

const client = (api, kind, base, model) => (tools) => ({
  api,
  tools,
  launch({ home, url, text }) {
    const folder = join(home, ".pi/agent");
    mkdirSync(folder, { recursive: true });
    const ibeam = { baseUrl: url + base, api: kind, apiKey: "ibeam", models: [{ id: model, reasoning: true }] };
    writeFileSync(join(folder, "models.json"), JSON.stringify({ providers: { ibeam } }));
    const line = [newerNode, program("pi"), "-p", "--no-session", "--provider", "ibeam", "--model", model, text];
    return { line, env: { PI_OFFLINE: "1" } };
  },
});

for (const [name, of] of [
  ["chat", client(chat, "openai-completions", "/v1", "gpt-5.5")],
  ["responses", client(responses, "openai-responses", "/v1", "gpt-5.5")],
  ["messages", client(messages, "anthropic-messages", "", "claude-sonnet-4-5")],
]) {
  does(name, of(["read", "edit", "write", "bash"]));
  // Cursor edits by reading the file and writing it.
  doesNatively(name, of(["read", "read", "write", "write", "bash"]));
}

does("set up by a command", {
  api: chat,
  tools: ["read", "edit", "write", "bash"],
  launch: bySetup("pi", {
    there: {
      ".pi/agent/models.json": `{
  // what runs here
  "providers": {
    // the small one
    "here": { "baseUrl": "http://127.0.0.1:9/v1", "api": "openai-completions", "apiKey": "x", "models": [{ "id": "small" }] }
  }
}
`,
    },
    changed: [".pi/agent/models.json"],
    run: ({ text }) => ({
      line: [newerNode, program("pi"), "-p", "--no-session", "--model", "ibeam/gpt-5.5", text],
      env: { PI_OFFLINE: "1" },
    }),
  }),
});
