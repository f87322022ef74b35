// pi: a strict reader of all three APIs.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { chat, messages, responses } from "./lib/apis.mjs";
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
