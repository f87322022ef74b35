// The real OpenCode at work through `ibeam up --sim`: it must do the whole task itself,
// and the gateway must do it in one upstream run and touch nothing.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { start, until } from "./group.mjs";
import { tap } from "./tap.mjs";
import { task } from "./task.mjs";

const here = dirname(fileURLToPath(import.meta.url));
const ibeam = process.env.IBEAM_BIN;
const strace = process.env.IBEAM_STRACE;
// A name that the client knows and that the gateway resolves.
const model = "gpt-4o";
const START_MS = 30_000;
const RUN_MS = 120_000;

/** Cursor's own tools are tried first; each that the client can do must reach it. */
const NATIVE = 'quirks = ["native_tools_first"]\n';

test("through the client's tools", { timeout: 2 * RUN_MS }, (t) =>
  work(t, "", ["read", "edit", "write", "bash"]),
);
test("through Cursor's own tools", { timeout: 2 * RUN_MS }, async (t) => {
  // Cursor edits by reading the file and writing it.
  const answer = await work(t, NATIVE, ["read", "read", "write", "write", "bash"]);
  // The simulator names the tool that answered: these are its own, not the client's.
  for (const name of ["read_file", "run_terminal_cmd"]) {
    assert.match(answer, new RegExp(`^${name} answered:`, "m"), answer);
  }
});

async function work(t, scenario, tools) {
  const room = mkdtempSync(join(tmpdir(), "ibeam-opencode-"));
  t.after(() => rmSync(room, { recursive: true, force: true, maxRetries: 5 }));
  const place = (name) => {
    const folder = join(room, name);
    mkdirSync(folder, { recursive: true });
    return folder;
  };
  const trace = join(room, "trace");
  const gateway = await serve(t, place("gateway"), scenario, trace);
  const wire = await tap(gateway.url);
  t.after(() => wire.stop());
  const project = place("project");
  const wanted = task(project);

  const client = opencode(place("home"), project, wire.url, wanted.text);
  t.after(() => client.stop());
  const story = () =>
    [
      `task: ${wanted.text}`,
      ...wire.seen.map((r) => `${r.path} ${r.status} tools=${r.body?.tools?.length ?? 0} ${r.id}`),
      `client: ${short(client.out() + client.err())}`,
      `gateway: ${gateway.log().slice(-6_000)}`,
    ].join("\n");
  const limit = setTimeout(() => client.stop(), RUN_MS);
  const end = await client.ended.finally(() => clearTimeout(limit));
  assert.equal(end.code, 0, `OpenCode ended with ${end.code ?? end.signal}\n${story()}`);

  // The work is done, by OpenCode's own tools and by nothing else.
  assert.deepEqual(wanted.wrong(), [], story());
  const events = client.out().split("\n").filter(Boolean).map((line) => JSON.parse(line));
  const used = events.filter((event) => event.type === "tool_use").map((event) => event.part);
  assert.deepEqual(used.map((part) => part.tool), tools, story());
  assert.ok(used.every((part) => part.state.status === "completed"), story());

  // The answer knows what only the files and the command could tell.
  const answer = events.filter((event) => event.type === "text").map((event) => event.part.text).join("\n");
  assert.ok(answer.includes(wanted.digest), story());
  assert.ok(answer.includes(wanted.secret), story());

  // One answer to each step of the chain, and nothing was asked twice.
  const asked = wire.seen.filter((entry) => entry.path.endsWith("/chat/completions"));
  assert.ok(asked.every((entry) => entry.status === 200), story());
  const chain = asked.filter((entry) => entry.body.tools?.length > 0);
  assert.equal(chain.length, tools.length + 1, story());

  // One upstream run for all of it. Requests for a title have one of their own.
  const titles = new Set(asked.filter((entry) => !chain.includes(entry)).map((entry) => entry.id));
  const opened = gateway
    .log()
    .split("\n")
    .filter((line) => line.includes("opening an upstream stream"))
    .map((line) => line.match(/request_id=(\w+)/)?.[1]);
  assert.ok(chain.every((entry) => entry.id && !titles.has(entry.id)), story());
  assert.equal(opened.filter((id) => !titles.has(id)).length, 1, `upstream runs of the chain\n${story()}`);

  // The gateway's process never so much as looked at the project.
  await gateway.stop();
  if (strace) {
    const calls = readFileSync(trace, "utf8");
    assert.match(calls, /execve\(.*ibeam/, "the trace is empty");
    for (const name of [project, ...wanted.names]) {
      assert.ok(!calls.includes(name), `the gateway touched ${name}:\n${lines(calls, name)}`);
    }
  } else {
    t.diagnostic("strace is not installed: what the gateway touches was not watched");
  }
  return answer;
}

/** A story that can be read: events of the client hold whole files. */
function short(text) {
  return text.split("\n").map((line) => line.slice(0, 300)).join("\n");
}

function lines(text, part) {
  return text.split("\n").filter((line) => line.includes(part)).join("\n");
}

/** `ibeam up --sim` in a folder of its own, watched by strace where there is one. */
async function serve(t, folder, scenario, trace) {
  const file = join(folder, "scenario.toml");
  writeFileSync(file, scenario);
  const line = [ibeam, "up", "--sim", "--scenario", file, "--port", "0", "--log-level", "debug"];
  const watch = ["-f", "-qq", "-s", "4096", "-e", "trace=%file,%process", "-o", trace];
  const [program, ...args] = strace ? [strace, ...watch, ...line] : line;
  const child = start(program, args, { cwd: folder, env: { PATH: process.env.PATH, HOME: folder } });
  t.after(() => child.stop());
  const url = await until(child, "ibeam up --sim", START_MS, () =>
    child.err().match(/listening[^\n]*?(http:\/\/)?(127\.0\.0\.1:\d+)/)?.[2],
  );
  return { url: `http://${url}`, log: child.err, stop: child.stop };
}

/** `opencode run` with a home folder of its own: no setting of this machine takes part. */
function opencode(home, project, url, text) {
  const dirs = { XDG_CONFIG_HOME: "config", XDG_DATA_HOME: "data", XDG_STATE_HOME: "state", XDG_CACHE_HOME: "cache" };
  const env = {
    PATH: process.env.PATH,
    HOME: home,
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
        npm: "@ai-sdk/openai-compatible",
        options: { baseURL: `${url}/v1`, apiKey: "ibeam" },
        models: { [model]: {} },
      },
    },
    permission: { "*": "allow" },
  };
  writeFileSync(join(settings, "opencode.json"), JSON.stringify(config));
  const program = join(here, "node_modules/.bin/opencode");
  return start(program, ["run", "--format", "json", text], { cwd: project, env });
}
