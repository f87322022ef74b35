// Aider: chat without tools. It explains a format for changes, and makes those it finds in
// the answer.

import { execFileSync } from "node:child_process";
import { cpSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { chat } from "./lib/apis.mjs";
import { does } from "./lib/work.mjs";

const venv = process.env.IBEAM_VENV;
const packages = join(venv, "lib", readdirSync(join(venv, "lib"))[0], "site-packages");
const prices = join(packages, "litellm/model_prices_and_context_window_backup.json");

const client = (format) => ({
  api: chat,
  wanted: { shell: false, lines: true },
  launch({ home, project, url, text, file }) {
    // Paths are those of the repository; without one, those of the file's own folder.
    execFileSync("git", ["init", "--quiet", project]);
    writeFileSync(join(home, ".gitconfig"), "[user]\nname = Somebody\nemail = somebody@example.com\n");
    // It would fetch its list of models otherwise.
    cpSync(prices, join(home, ".aider/caches/model_prices_and_context_window.json"));
    const quiet = ["--analytics-disable", "--no-check-update", "--no-show-release-notes"];
    const plain = ["--no-pretty", "--no-fancy-input", "--no-gitignore", "--no-auto-commits", "--yes-always"];
    const model = ["--model", "openai/gpt-4o", "--edit-format", format];
    return {
      line: [join(venv, "bin/aider"), ...model, ...quiet, ...plain, "--message", text, file],
      env: { OPENAI_API_BASE: `${url}/v1`, OPENAI_API_KEY: "ibeam", LITELLM_LOCAL_MODEL_COST_MAP: "True" },
    };
  },
});

does("by blocks to search and replace", client("diff"));
does("by whole files", client("whole"));
