// Aider: chat without tools. It explains a format for changes, and makes those it finds in
// the answer.

import { execFileSync } from "node:child_process";
import { cpSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { chat } from "./lib/apis.mjs";
import { bySetup } from "./lib/setup.mjs";
import { does } from "./lib/work.mjs";

const venv = process.env.IBEAM_VENV;
const packages = join(venv, "lib", readdirSync(join(venv, "lib"))[0], "site-packages");
const prices = join(packages, "litellm/model_prices_and_context_window_backup.json");

/** Its home and folder, and how it is started for one message. */
function prepare({ home, project, text, file }) {
  // Paths are those of the repository; without one, those of the file's own folder.
  execFileSync("git", ["init", "--quiet", project]);
  writeFileSync(join(home, ".gitconfig"), "[user]\nname = Somebody\nemail = somebody@example.com\n");
  // It would fetch its list of models otherwise.
  cpSync(prices, join(home, ".aider/caches/model_prices_and_context_window.json"));
  const quiet = ["--analytics-disable", "--no-check-update", "--no-show-release-notes"];
  const plain = ["--no-pretty", "--no-fancy-input", "--no-gitignore", "--no-auto-commits", "--yes-always"];
  return {
    line: (...model) => [join(venv, "bin/aider"), ...model, ...quiet, ...plain, "--message", text, file],
    env: { LITELLM_LOCAL_MODEL_COST_MAP: "True" },
  };
}

const client = (format) => ({
  api: chat,
  wanted: { shell: false, lines: true },
  launch(order) {
    const { line, env } = prepare(order);
    return {
      line: line("--model", "openai/gpt-4o", "--edit-format", format),
      env: { ...env, OPENAI_API_BASE: `${order.url}/v1`, OPENAI_API_KEY: "ibeam" },
    };
  },
});

does("by blocks to search and replace", client("diff"));
does("by whole files", client("whole"));

does("set up by a command", {
  api: chat,
  wanted: { shell: false, lines: true },
  launch: bySetup("aider", {
    there: {
      ".aider.conf.yml": "# mine\ndark-mode: true   # at night\n\n# the end\n",
      // For a name that it does not know, it repeats its rules behind each message.
      ".aider.model.settings.yml": "- name: openai/auto\n  edit_format: diff\n  reminder: sys\n",
    },
    changed: [".aider.conf.yml", ".aider.model.metadata.json"],
    run(order) {
      const { line, env } = prepare(order);
      return { line: line(), env };
    },
  }),
});
