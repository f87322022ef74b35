// OpenCode with the plugin, as somebody has it who installs the package today: a clean home,
// the packed tarball, a sign-in typed into a terminal, and then work.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, before, test } from "node:test";
import { Terminal } from "../login/terminal.mjs";
import { start, until } from "./lib/group.mjs";
import { task } from "./lib/task.mjs";
import { program } from "./lib/work.mjs";

const ibeam = process.env.IBEAM_BIN;
const tarball = process.env.IBEAM_PLUGIN;
const SCENE = { timeout: 240_000 };
const RUN_MS = 120_000;
const LINK = /(http\S+\/loginDeepControl\?challenge=[\w-]{43}&uuid=[\w-]{36}&mode=login&redirectTarget=cli)/;

const room = mkdtempSync(join(tmpdir(), "ibeam-opencode-"));
const home = join(room, "home");
const settings = join(home, ".config/opencode");
const installed = join(room, "plugins/ibeam-opencode");
let cursor;
let env;

before(async () => {
  const own = join(room, "cursor");
  [own, home, join(room, "bin"), join(room, "temp"), join(settings, "node_modules"), installed].forEach((folder) =>
    mkdirSync(folder, { recursive: true }),
  );
  // What is in the tarball, and nothing else of the source tree.
  execFileSync("tar", ["xzf", tarball, "-C", installed, "--strip-components=1"]);
  // Otherwise it installs its plugin package here, and waits for a registry.
  const lock = { packages: { "": { dependencies: { "@opencode-ai/plugin": "*" } } } };
  writeFileSync(join(settings, "package-lock.json"), JSON.stringify(lock));
  configure({});

  const sim = start(ibeam, ["sim", "--login-page"], { cwd: own, env: { PATH: process.env.PATH, HOME: own } });
  const url = await until(sim, "ibeam sim", 30_000, () => sim.out().match(/http:\/\/\S+/)?.[0]);
  cursor = { url, stop: sim.stop };
  env = {
    PATH: `${dirname(program("opencode"))}:${process.env.PATH}`,
    HOME: home,
    TMPDIR: join(room, "temp"),
    IBEAM_BIN: ibeam,
    CURSOR_API_URL: url,
    OPENCODE_DISABLE_AUTOUPDATE: "1",
    OPENCODE_DISABLE_MODELS_FETCH: "1",
    OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
    OPENCODE_DISABLE_DEFAULT_PLUGINS: "1",
  };
});

after(async () => {
  if (env) execFileSync(ibeam, ["stop", "--all"], { env: plain(), stdio: "ignore" });
  await cursor?.stop();
  rmSync(room, { recursive: true, force: true, maxRetries: 5 });
});

function configure(more) {
  const config = {
    autoupdate: false,
    share: "disabled",
    model: "cursor/auto",
    small_model: "cursor/auto",
    plugin: [`file://${installed}`],
    permission: { "*": "allow" },
    ...more,
  };
  writeFileSync(join(settings, "opencode.json"), JSON.stringify(config));
}

/** OpenCode run to its end. */
async function opencode(args, { cwd = home, more = {} } = {}) {
  const running = start(program("opencode"), args, { cwd, env: { ...env, ...more } });
  const limit = setTimeout(() => running.stop(), RUN_MS);
  const { code } = await running.ended.finally(() => clearTimeout(limit));
  return { code, out: running.out(), err: running.err(), both: `${running.out()}\n${running.err()}` };
}

/** For the program itself, to which `IBEAM_BIN` means nothing. */
const plain = () => ({ ...env, IBEAM_BIN: undefined });

const gateway = () => JSON.parse(execFileSync(ibeam, ["start", "--json"], { env: plain(), encoding: "utf8" }));

/** Chooses Cursor and a way to sign in, with the keys of the keyboard. */
async function login(t, name, way, choose) {
  const folder = join(room, name);
  mkdirSync(folder);
  const screen = await Terminal.open(folder, { ...env, TERM: "xterm-256color" }, { columns: 200, rows: 50 });
  t.after(() => screen.close());
  screen.run("opencode auth login");
  await screen.shows(/Select provider/, RUN_MS);
  screen.letters("cursor");
  await screen.shows(/● Cursor\b/i);
  screen.key("Enter");
  await screen.shows(/Login method[\s\S]*Sign in with Cursor[\s\S]*Cursor API key/);
  for (let step = 0; step < way; step++) screen.key("Down");
  await screen.shows(way === 0 ? /● Sign in with Cursor/ : /● Cursor API key/);
  screen.key("Enter");
  await choose(screen);
  await screen.shows(/Login successful/, RUN_MS);
  assert.equal((await screen.ends(RUN_MS)).code, 0);
  return screen;
}

const store = () => JSON.parse(readFileSync(join(home, ".local/share/opencode/auth.json"), "utf8"));

/** The provider is there, and what is wrong is the whole of what a user reads. */
async function says(problem, more) {
  const listed = await opencode(["models", "cursor"], { more });
  assert.equal(listed.code, 0, listed.both);
  assert.deepEqual(listed.out.trim().split("\n"), ["cursor/auto"]);
  assert.deepEqual(ours(listed.err), [problem], listed.err);
  const asked = await opencode(["run", "-m", "cursor/auto", "hello"], { more });
  assert.notEqual(asked.code, 0, asked.both);
  assert.deepEqual(ours(asked.both), [problem, `Error: ${problem}`], asked.both);
}

/** The lines about ibeam, without their colours. */
const ours = (text) => text.replace(/\u001b\[[0-9;]*m/g, "").split("\n").filter((line) => line.includes("ibeam:"));

test("without a sign-in it says so in one line", SCENE, async () => {
  await says("ibeam: not signed in to Cursor; run `opencode auth login` and choose Cursor");
});

test("set up for the simulator, it needs no sign-in", SCENE, async () => {
  execFileSync(ibeam, ["setup", "opencode", "--sim", "--yes", "--no-verify"], { env: plain(), stdio: "ignore" });
  const { code, both } = await opencode(["run", "say hello"]);
  execFileSync(ibeam, ["undo", "opencode", "--yes"], { env: plain(), stdio: "ignore" });
  assert.equal(code, 0, both);
  assert.match(both, /simulator/);
  assert.doesNotMatch(both, /ibeam:/);
});

test("signing in with an API key, typed", SCENE, async (t) => {
  const key = "crsr_51a0c0ffee51a0c0ffee51a0c0ffee51a0c0ffee51a0c0ffee51a0c0ffee51a0";
  await login(t, "by-key", 1, async (screen) => {
    // Not before the field is there: what is typed sooner is lost.
    await screen.shows(/API key \(from[\s\S]*crsr_…/);
    screen.type(key);
  });
  assert.deepEqual(store(), { cursor: { type: "api", key: "ibeam" } });
  const kept = readFileSync(join(home, ".config/ibeam/credentials/default.json"), "utf8");
  assert.equal(JSON.parse(kept).apiKey, key);
  execFileSync(ibeam, ["logout"], { env: plain(), stdio: "ignore" });
  rmSync(join(home, ".local/share/opencode/auth.json"));
});

test("signing in with the browser", SCENE, async (t) => {
  await login(t, "by-link", 0, async (screen) => {
    const [, link] = await screen.shows(LINK, RUN_MS);
    const page = await (await fetch(link)).text();
    assert.match(page, /wants to sign in/);
    const form = new URL(link).searchParams;
    form.set("decision", "allow");
    const pressed = await fetch(new URL(link).origin + "/loginDeepControl", { method: "POST", body: form });
    assert.match(await pressed.text(), /Signed in to the simulator/);
  });
  // The store holds a word; the tokens are where ibeam keeps them.
  assert.deepEqual(store(), { cursor: { type: "api", key: "ibeam" } });
  const kept = JSON.parse(readFileSync(join(home, ".config/ibeam/credentials/default.json"), "utf8"));
  assert.ok(kept.access && kept.refresh);
});

test("the models are those of the account, with limits; the user's own stay", SCENE, async () => {
  const own = { id: "mine", name: "My Model", api: { id: "claude-opus-5", npm: "@ai-sdk/openai-compatible" }, limit: { context: 1234, output: 567 } };
  const options = { sessionReuse: true, cacheModels: true, timeout: 300_000 };
  configure({ provider: { cursor: { options, models: { mine: own } } } });
  const { code, out, both } = await opencode(["models", "cursor", "--verbose"]);
  configure({});
  assert.equal(code, 0, both);
  const shown = new Map(
    out.split(/^(?=cursor\/)/m).filter(Boolean).map((part) => {
      const end = part.indexOf("\n");
      return [part.slice("cursor/".length, end).trim(), JSON.parse(part.slice(end))];
    }),
  );
  const { url, key } = gateway();
  const { data } = await (await fetch(`${url}/v1/models`, { headers: { authorization: `Bearer ${key}` } })).json();
  assert.deepEqual([...shown.keys()].sort(), [...data.map((card) => card.id), "mine"].sort(), both);
  for (const card of data) {
    const model = shown.get(card.id);
    assert.equal(model.name, card.name);
    assert.deepEqual([model.limit.context, model.limit.output], [card.context_window, card.max_output_tokens]);
    const { images, tools, reasoning, efforts = [] } = card.capabilities;
    const can = model.capabilities;
    assert.deepEqual([can.input.image, can.attachment, can.toolcall, can.reasoning], [images, images, tools, reasoning]);
    if (reasoning && efforts.length > 0) assert.deepEqual(Object.keys(model.variants).sort(), [...efforts].sort(), card.id);
    assert.deepEqual([model.cost.input, model.cost.output], [0, 0]);
  }
  const mine = shown.get("mine");
  assert.deepEqual([mine.name, mine.api.id, mine.limit.context, mine.limit.output], ["My Model", "claude-opus-5", 1234, 567]);
  assert.equal(mine.capabilities.reasoning, true, "what was left out comes from the model itself");
  assert.ok(!out.includes(key), "the gateway's key was shown");
});

/** One window at its piece of work, in a project of its own. */
async function works(name) {
  const project = join(room, name);
  mkdirSync(project);
  const order = task(project);
  const done = await opencode(["run", "--format", "json", order.text], { cwd: project });
  const events = done.out.split("\n").filter((line) => line.startsWith("{")).map((line) => JSON.parse(line));
  const tools = events.filter((event) => event.type === "tool_use").map((event) => event.part.tool);
  const said = events.filter((event) => event.type === "text").map((event) => event.part.text).join("\n");
  return { order, tools, said, ...done };
}

test("two windows at once do their work, and stay apart, through one gateway", SCENE, async () => {
  const before = gateway();
  const windows = await Promise.all([works("one"), works("two")]);
  for (const { code, order, tools, said, both } of windows) {
    assert.equal(code, 0, both);
    assert.deepEqual(order.wrong(), [], both);
    assert.deepEqual(tools, ["read", "edit", "write", "bash"], both);
    for (const part of order.told) assert.ok(said.includes(part), `${part} was not told\n${both}`);
    assert.doesNotMatch(both, /ibeam:/);
  }
  const [one, two] = windows;
  for (const secret of two.order.told) assert.ok(!one.both.includes(secret), "a window saw the other's");
  for (const secret of one.order.told) assert.ok(!two.both.includes(secret), "a window saw the other's");
  const after = gateway();
  assert.deepEqual([after.pid, after.started], [before.pid, false]);
});

test("a gateway that ended under a running OpenCode is replaced", SCENE, async (t) => {
  const serving = start(program("opencode"), ["serve", "--port", "0"], { cwd: home, env });
  t.after(() => serving.stop());
  const url = await until(serving, "opencode serve", RUN_MS, () => serving.out().match(/http:\/\/127\.0\.0\.1:\d+/)?.[0]);
  const ask = async (path, body) => {
    const answer = await fetch(`${url}${path}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
    assert.equal(answer.status, 200);
    return answer.json();
  };
  const session = await ask("/session", {});
  const secret = randomBytes(9).toString("hex");
  const say = (text) => ask(`/session/${session.id}/message`, { parts: [{ type: "text", text }] });
  assert.ok((await say("hello")).parts.some((part) => part.type === "text"));
  const before = gateway();
  process.kill(before.pid, "SIGKILL");
  writeFileSync(join(home, "note.txt"), `${secret}\n`);
  const reply = JSON.stringify(await say("read `note.txt`"));
  assert.ok(reply.includes(secret), reply);
  const after = gateway();
  assert.notEqual(after.pid, before.pid);
  assert.equal(after.started, false, "the plugin has started it");
  // What a window asks of the configuration holds neither key nor functions.
  const config = await (await fetch(`${url}/config`)).text();
  assert.ok(config.includes('"cursor"') && !config.includes(after.key), config);
});

test("without the program OpenCode starts, says so in one line, and another plugin is there", SCENE, async () => {
  const trace = join(room, "other-plugin");
  const other = join(room, "other.js");
  writeFileSync(other, `import { writeFileSync } from "node:fs";\nexport const Other = async () => ({ config: async () => writeFileSync(${JSON.stringify(trace)}, "here") });\n`);
  configure({ plugin: [`file://${installed}`, `file://${other}`] });
  const missing = join(room, "nowhere/ibeam");
  rmSync(join(home, ".cache/ibeam"), { recursive: true, force: true });
  await says(`ibeam: IBEAM_BIN names ${missing}, which is not a program`, { IBEAM_BIN: missing });
  configure({});
  assert.ok(existsSync(trace), "the other plugin did not load");
});
