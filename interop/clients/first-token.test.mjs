// From a clean machine to the first token. A home folder with nothing in it, a PATH with Node and
// the clients and nothing else; then the commands of the documentation, in a terminal that nobody
// types into. Each is written down: what it was, what it asked for, what was typed, how long it took.

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { test } from "node:test";
import { start, until } from "./lib/group.mjs";
import { registry, settings } from "./lib/registry.mjs";
import { newerNode, program } from "./lib/work.mjs";

const { IBEAM_BIN: ibeam, IBEAM_PACKAGES: packed, IBEAM_OTHER_PACKAGES: others } = process.env;
const LIMIT_MS = 120_000;
/** Between two pieces of the answer: what arrives at once was not streamed. */
const PACE_MS = 60;

/** What a user has of them: their command, and how to ask a question without a conversation. */
const CLIENTS = {
  opencode: { setup: "opencode", ask: (text) => `opencode run '${text}'` },
  claude: {
    setup: "claude-code",
    ask: (text) => `claude -p '${text}' --output-format stream-json --include-partial-messages --verbose`,
  },
  codex: { setup: "codex", ask: (text) => `codex exec --skip-git-repo-check '${text}'` },
};

for (const [name, { setup, ask }] of Object.entries(CLIENTS)) {
  test(`${name}: install, run`, { timeout: 3 * LIMIT_MS }, async (t) => {
    const machine = await clean(t);
    await machine.command("npm install -g ibeam-gateway");
    await machine.command(`ibeam run ${ask(machine.question)}`, { token: true });
    machine.tell(2);
  });

  // The same with the client's own settings, for every time after that.
  test(`${name}: install, setup, and the client by itself`, { timeout: 3 * LIMIT_MS }, async (t) => {
    const machine = await clean(t);
    await machine.command("npm install -g ibeam-gateway");
    // It was the client that was tried, and not only the gateway.
    await machine.command(`ibeam setup ${setup} --yes`, { says: /Tested: .* answered and used one of its tools/ });
    await machine.command(ask(machine.question), { token: true });
    machine.tell(3);
  });
}

async function clean(t) {
  const room = mkdtempSync(join(tmpdir(), "ibeam-first-"));
  const [home, path, project] = ["home", "path", "project"].map((name) => join(room, name));
  for (const folder of [home, path, project]) mkdirSync(folder);
  for (const name of Object.keys(CLIENTS)) symlinkSync(program(name), join(path, name));
  for (const [name, place] of [["node", newerNode], ["npm", where("npm")]]) symlinkSync(place, join(path, name));

  // What the model will say is drawn anew, so that nothing else can have said it.
  const mark = () => randomBytes(6).toString("hex");
  const [question, first, last] = [`please say ${mark()}`, mark(), mark()];
  const cursor = await simulator(t, room, question, `${first} is how it begins, and the end of it is ${last}`);
  const npm = await registry(packed, others);
  t.after(() => npm.stop());
  const report = join(room, "clicked");
  const npmSettings = settings(npm.url, home);
  const env = {
    PATH: [join(npmSettings.npm_config_prefix, "bin"), path].join(delimiter),
    HOME: home,
    TERM: "xterm",
    // Stands for the internet: npm's registry, Cursor, and the user's browser.
    ...npmSettings,
    CURSOR_API_URL: cursor,
    BROWSER: browser(room, report),
    // So that the first piece can be found in the gateway's log.
    IBEAM_LOG_TIMING: "true",
    IBEAM_LOG_LEVEL: "debug",
    // Not the usual one: whoever runs this may have a gateway there.
    IBEAM_PORT: String(await free()),
    // There is no internet beyond that, and these would wait for it.
    OPENCODE_DISABLE_MODELS_FETCH: "1",
    OPENCODE_DISABLE_AUTOUPDATE: "1",
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    DISABLE_AUTOUPDATER: "1",
  };
  t.after(() => leave(env, home, project).finally(() => rmSync(room, { recursive: true, force: true, maxRetries: 5 })));
  assert.deepEqual(readdirSync(home), [], "the machine is not clean");

  const steps = [];
  const began = Date.now();
  return {
    question,
    async command(line, { token = false, says = /^/ } = {}) {
      const [from, clicks] = [Date.now(), clicked(report).length];
      const shell = start(where("script"), ["-q", "-e", "-f", "-c", line, "/dev/null"], { cwd: project, env, input: true });
      t.after(() => shell.stop());
      const story = () => `${line}\n${shell.out()}\n${log(home)}`;
      const limit = setTimeout(() => shell.stop(), LIMIT_MS);
      // The terminal stays open, and nothing is ever written to it.
      let seen = null;
      if (token) {
        await until(shell, `${line}: the first token`, LIMIT_MS, () => shell.out().includes(first)).catch((error) => {
          throw new Error(`${error.message}\n${story()}`);
        });
        seen = Date.now();
      }
      const end = await shell.ended.finally(() => clearTimeout(limit));
      assert.equal(end.code, 0, `ended with ${end.code ?? end.signal}: ${story()}`);
      assert.match(shell.out(), says, story());
      const step = { line, asked: clicked(report).slice(clicks), seconds: (Date.now() - from) / 1000 };
      if (token) {
        assert.ok(shell.out().includes(last), `the answer is not whole: ${story()}`);
        const sent = wire(home, began, seen);
        assert.ok(sent, `the gateway tells of no first piece: ${story()}`);
        assert.ok(sent.end - sent.first > 3 * PACE_MS, `not streamed: ${JSON.stringify(sent)}`);
        Object.assign(step, { wire: (sent.first - from) / 1000, screen: (seen - from) / 1000, since: (seen - began) / 1000 });
      }
      steps.push(step);
    },
    /** The record, and what must hold of it. */
    tell(commands) {
      assert.equal(steps.length, commands);
      const buttons = steps.flatMap((step) => step.asked);
      assert.deepEqual(buttons, ["Sign in"], "one button of Cursor's page, and nothing else");
      for (const [at, { line, asked, seconds, wire, screen, since }] of steps.entries()) {
        t.diagnostic(`${at + 1}. ${line.replace(question, "please say …")}`);
        t.diagnostic(`   asked: ${asked.map((button) => `the button "${button}" in the browser`).join(", ") || "nothing"}`);
        t.diagnostic(`   typed: nothing; ${seconds.toFixed(1)} s`);
        if (screen === undefined) continue;
        t.diagnostic(`   first token: on the wire after ${wire.toFixed(1)} s, on the screen after ${screen.toFixed(1)} s`);
        t.diagnostic(`   ${commands} commands, ${since.toFixed(1)} s from the clean machine to the first token`);
      }
    },
  };
}

/** Cursor: who presses the button of its page is signed in, and its model says one thing. */
async function simulator(t, room, question, answer) {
  const file = join(room, "scenario.toml");
  const rule = [`name = "first token"`, "[[rule]]", `when = { contains = "${question}" }`, `steps = [{ text = { text = "${answer}", chunk = 6 } }]`];
  writeFileSync(file, rule.join("\n"));
  const args = ["sim", "--login-page", "--scenario", file, "--pace-ms", String(PACE_MS)];
  const child = start(ibeam, args, { cwd: room, env: { PATH: process.env.PATH, HOME: room } });
  t.after(() => child.stop());
  return until(child, "ibeam sim", LIMIT_MS, () => child.out().match(/http:\S+/)?.[0]);
}

/** The user's browser: it opens a page and presses its first button, as a form of HTML says. */
function browser(room, report) {
  const file = join(room, "browser.mjs");
  writeFileSync(
    file,
    `#!${process.execPath}
import { appendFileSync } from "node:fs";
const [, , url] = process.argv;
const page = await (await fetch(url)).text();
const fields = [...page.matchAll(/<input[^>]*name="(\\w+)" value="([^"]*)"/g)].map(([, name, value]) => [name, value]);
const [, name, value, label] = page.match(/<button name="(\\w+)" value="(\\w+)">([^<]*)</);
const answer = await fetch(url, { method: "POST", body: new URLSearchParams([...fields, [name, value]]) });
if (answer.ok) appendFileSync(${JSON.stringify(report)}, label + "\\n");
`,
    { mode: 0o755 },
  );
  return file;
}

const clicked = (report) => (existsSync(report) ? readFileSync(report, "utf8").trim().split("\n") : []);

const log = (home) => {
  const file = join(home, ".local/state/ibeam/gateway.log");
  return existsSync(file) ? readFileSync(file, "utf8") : "";
};

/** When the gateway passed the first piece of the answer on, and when its end, by its own log. */
function wire(home, began, seen) {
  const legs = log(home).split("\n").filter((line) => line.includes("turn timing"));
  const times = legs.map((line) => {
    const number = (name) => Number(line.match(new RegExp(`${name}"?[=:] ?([\\d.]+)`))?.[1]);
    const end = Date.parse(line.match(/\d{4}-\d\d-\d\dT[\d:.]+Z/)?.[0]);
    return { first: end - number("total_ms") + number("first_piece_ms"), end };
  });
  // The last one before it was seen: clients also ask for titles, and ibeam itself tries a client's way.
  return times.filter(({ first }) => first > began && first <= seen).toSorted((a, b) => b.first - a.first)[0];
}

/** The gateway in the background outlives its commands; it must not outlive the test. */
async function leave(env, home, project) {
  const { code } = await start(ibeam, ["stop", "--all"], { cwd: project, env }).ended;
  const folder = join(home, ".local/state/ibeam/instances");
  const left = existsSync(folder) ? readdirSync(folder).filter((name) => name.endsWith(".json")) : [];
  for (const name of left) {
    const { pid } = JSON.parse(readFileSync(join(folder, name), "utf8"));
    try {
      process.kill(pid, "SIGKILL");
    } catch (error) {
      if (error.code !== "ESRCH") throw error;
    }
  }
  assert.deepEqual([code, left], [0, []], "`ibeam stop --all` left a gateway behind");
}

/** A port that nobody has. */
async function free() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

/** A program of this machine, by its name. */
function where(name) {
  const found = process.env.PATH.split(delimiter).map((folder) => join(folder, name)).find(existsSync);
  assert.ok(found, `${name} is not installed`);
  return found;
}
