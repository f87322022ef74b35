// `llm`: chat with Python functions as tools.

import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chat } from "./lib/apis.mjs";
import { bySetup } from "./lib/setup.mjs";
import { does, doesNatively } from "./lib/work.mjs";

const llm = join(process.env.IBEAM_VENV, "bin/llm");
const functions = join(dirname(fileURLToPath(import.meta.url)), "llm_functions.py");

const client = (tools) => ({
  api: chat,
  tools,
  launch({ home, url, text }) {
    const settings = join(home, "llm");
    mkdirSync(settings);
    const model = { model_id: "ibeam", model_name: "gpt-4o", api_base: `${url}/v1`, supports_tools: true };
    // JSON is YAML.
    writeFileSync(join(settings, "extra-openai-models.yaml"), JSON.stringify([model]));
    return {
      line: [llm, "-m", "ibeam", "--functions", functions, "--chain-limit", "0", text],
      env: { LLM_USER_PATH: settings },
    };
  },
});

does("with functions", client(["read_file", "str_replace", "write_file", "run_command"]));
doesNatively(
  "with functions",
  client(["read_file", "read_file", "write_file", "write_file", "run_command"]),
);

const settings = ".config/io.datasette.llm";
does("set up by a command", {
  api: chat,
  tools: ["read_file", "str_replace", "write_file", "run_command"],
  launch: bySetup("llm", {
    there: {
      [`${settings}/extra-openai-models.yaml`]: `# at home
- model_id: box   # the small one
  model_name: llama
  api_base: http://127.0.0.1:9/v1
`,
    },
    changed: [`${settings}/default_model.txt`, `${settings}/extra-openai-models.yaml`],
    // The model is the default one.
    run: ({ text }) => ({ line: [llm, "--functions", functions, "--chain-limit", "0", text] }),
  }),
});
