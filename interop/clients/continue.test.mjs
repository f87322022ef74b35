// Continue's command line. It chooses the API by the model's name.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { chat, responses } from "./lib/apis.mjs";
import { bySetup } from "./lib/setup.mjs";
import { does, doesNatively, newerNode, program } from "./lib/work.mjs";

/** One answer, with all of its tools allowed. */
const run = (text, ...config) => ({
  line: [newerNode, program("cn"), ...config, "-p", "--auto", text],
  env: { CONTINUE_CLI_ENABLE_TELEMETRY: "0" },
});

const client = (api, model, tools) => ({
  api,
  tools,
  launch({ home, url, text }) {
    const own = { name: "ibeam", provider: "openai", model, apiBase: `${url}/v1`, apiKey: "ibeam" };
    const models = [{ ...own, capabilities: ["tool_use"] }];
    const config = join(home, "config.yaml");
    // JSON is YAML.
    writeFileSync(config, JSON.stringify({ name: "mine", version: "1.0.0", schema: "v1", models }));
    return run(text, "--config", config);
  },
});

// A model that it deems capable is offered a tool for many changes at once and none for one;
// the simulator's assistant then changes the file by a command.
does("responses", client(responses, "gpt-5.5", ["Read", "Bash", "Write", "Bash"]));
doesNatively("chat", client(chat, "auto", ["Read", "Read", "Write", "Write", "Bash"]));

does("set up by a command", {
  api: chat,
  tools: ["Read", "Edit", "Write", "Bash"],
  launch: bySetup("continue", {
    there: {
      ".continue/config.yaml": `name: mine   # whatever
version: 0.0.1
schema: v1

# no models yet
rules:
  - Speak plainly.
`,
    },
    changed: [".continue/config.yaml"],
    run: ({ text }) => run(text),
  }),
});
