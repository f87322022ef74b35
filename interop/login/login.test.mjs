// Signing in as a person does it: `ibeam` in a terminal, the link in a browser, and what
// stands on the screen meanwhile.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { Chromium } from "./browser.mjs";
import { scan } from "./qr.mjs";
import { Terminal, pause } from "./terminal.mjs";

const ibeam = process.env.IBEAM_BIN;
const SCENE = { timeout: 120_000 };
const LINK = /^ {2}(http\S+\/loginDeepControl\?challenge=[\w-]{43}&uuid=[\w-]{36}&mode=login&redirectTarget=cli)$/m;
const WAITING = /Waiting for you to sign in, (\d+):(\d\d) left\. Ctrl-C stops\./;

/** Cursor, simulated: a sign-in is complete when a button of its page is pressed. */
let cursor;
let browser;
before(async () => {
  cursor = await simulator();
  browser = new Chromium();
});
after(() => Promise.all([cursor?.stop(), browser?.close()]));

test("login, whoami, up, logout", SCENE, async (t) => {
  // Without a desktop no opener is asked.
  const user = await person(t, { env: { DISPLAY: ":0" } });
  user.opener('echo "$1" >> "$HOME/opened"');
  const { screen } = user;
  screen.run("ibeam login");
  await screen.shows(/Your browser opens to sign in to Cursor\. If it does not, open/);
  await screen.shows(WAITING);
  const link = await user.link();
  assert.equal((await user.file("opened")).trim(), link, "the browser got another link than the user");
  assert.equal(scan(screen.rows()), null, "who has the browser here needs no camera");
  await countsDown(screen);

  const { before, after } = await browser.press(link, "allow");
  assert.match(before, /wants to sign in/);
  assert.match(after, /Signed in to the simulator/);
  const { code, lines } = await screen.ends();
  assert.equal(code, 0);
  assert.deepEqual(lines.slice(-2), ["Signed in as auth0|user_sim (pro).", "Next: `ibeam up`"]);
  assert.doesNotMatch(lines.join("\n"), /Waiting|left\./, "the time that was left has gone");
  assertRestored(screen);

  const file = user.at(".config/ibeam/credentials/default.json");
  assert.equal(mode(file), "600");
  assert.equal(mode(join(file, "..")), "700");
  const kept = JSON.parse(readFileSync(file, "utf8"));
  assert.ok(kept.access && kept.refresh && kept.account.sub === "auth0|user_sim");
  assert.ok(!screen.raw().includes(kept.access), "the token was on the screen");

  screen.run("ibeam whoami");
  const table = await screen.ends();
  const row = (name) => table.lines.find((line) => line.startsWith(name))?.slice(name.length).trim();
  screen.run("ibeam whoami --json");
  const json = await screen.ends();
  assert.deepEqual([table.code, json.code], [0, 0]);
  const who = JSON.parse(json.lines.join("\n"));
  assert.equal(row("Account"), who.account.sub);
  assert.equal(row("Plan"), who.plan);
  assert.equal(row("Source"), who.source);
  assert.equal(row("Profile"), who.profile);
  assert.equal(row("Backends"), who.backends.join(", "));
  assert.match(row("Expires"), /^in \d+ days$/);
  const days = Math.floor((who.expires - Date.now() / 1000) / 86_400);
  assert.equal(row("Expires"), `in ${days} days`);

  await serves(user, "ibeam up --port 0");

  screen.run("ibeam logout");
  assert.deepEqual(await screen.ends(), { code: 0, lines: ["Signed out (profile `default`)."] });
  assert.ok(!existsSync(file));
  screen.run("ibeam whoami");
  const nobody = await screen.ends();
  assert.equal(nobody.code, 1);
  assert.deepEqual(nobody.lines.slice(0, 2), ["error: you are not signed in to Cursor", "hint: run `ibeam login`"]);
});

test("up signs in by itself, and opens the browser by itself", SCENE, async (t) => {
  const user = await person(t);
  const report = user.at("report.json");
  const script = fileURLToPath(new URL("browser.mjs", import.meta.url));
  const chromium = `IBEAM_CHROMIUM='${process.env.IBEAM_CHROMIUM}'`;
  const program = user.program("my-browser", `${chromium} exec '${process.execPath}' '${script}' allow '${report}' "$1"`);
  user.opener("exit 9");
  const { screen } = user;
  await serves(user, `BROWSER='${program}' ibeam up --port 0`, async () => {
    await screen.shows(/Not signed in to Cursor yet\./);
    await screen.shows(/Your browser opens/);
    const link = await user.link();
    await screen.shows(/^Signed in as auth0\|user_sim\.$/m, 60_000);
    assert.doesNotMatch(screen.text(), /Waiting|left\./);
    const shown = JSON.parse(await user.file("report.json"));
    assert.equal(shown.url, link);
    assert.match(shown.after ?? shown.error, /Signed in to the simulator/);
  });
});

test("without a browser here: a QR code, and a policy says no", SCENE, async (t) => {
  const user = await person(t);
  user.opener('touch "$HOME/opened"');
  const { screen } = user;
  screen.run("ibeam login --no-browser");
  await screen.shows(/Open this link to sign in to Cursor, on any device:/);
  await screen.shows(WAITING);
  const link = await user.link();
  assert.equal(scan(screen.rows()), link, "the picture shows another link");
  const { after } = await browser.press(link, "deny");
  assert.match(after, /Refused/);
  const { code, lines } = await screen.ends();
  assert.equal(code, 1);
  assert.deepEqual(lines.slice(-2), [
    "error: Cursor does not allow this sign-in: Your team does not allow this sign-in",
    "hint: ask the administrator of your Cursor team",
  ]);
  await screen.wrote(/\x1b\[[0-9;]*31m/); // An error is red.
  assert.ok(!existsSync(user.at("opened")), "a browser was opened");
  assertRestored(screen);
  user.assertNothingKept();
});

test("Ctrl-C, over ssh", SCENE, async (t) => {
  const user = await person(t, { env: { SSH_CONNECTION: "192.0.2.1 50000 192.0.2.2 22" } });
  user.opener('touch "$HOME/opened"');
  const { screen } = user;
  screen.run("ibeam login");
  await screen.shows(WAITING);
  assert.equal(scan(screen.rows()), await user.link());
  assert.equal(screen.fact("pane_current_command"), "ibeam");
  screen.key("C-c");
  const { code, lines } = await screen.ends(5_000);
  assert.equal(code, 130);
  const shown = lines.filter((line) => line && !/^[█▀▄ ]+$/.test(line));
  assert.deepEqual(shown.slice(2), ["error: the sign-in was stopped"], "one line, and the link before it");
  assert.ok(!existsSync(user.at("opened")), "a browser was opened where nobody sits");
  assertRestored(screen);
  user.assertNothingKept();
});

test("nobody comes", SCENE, async (t) => {
  const user = await person(t);
  const { screen } = user;
  screen.run("ibeam login --no-browser --set clocks.login=3s");
  const [, minutes, seconds] = await screen.shows(WAITING);
  assert.equal(minutes, "0");
  assert.ok(Number(seconds) <= 3, seconds);
  const { code, lines } = await screen.ends(10_000);
  assert.equal(code, 1);
  assert.deepEqual(lines.slice(-2), [
    "error: the sign-in was not completed in time",
    "hint: run `ibeam login` again; this link no longer works",
  ]);
  assertRestored(screen);
  user.assertNothingKept();
});

test("forty columns, and no colours", SCENE, async (t) => {
  const user = await person(t, { env: { NO_COLOR: "1" }, columns: 40, rows: 24 });
  const { screen } = user;
  screen.run("ibeam login --no-browser");
  await screen.shows(/Sign in, \d+:\d\d left\. Ctrl-C stops\./);
  assert.match(screen.text(), /\(A window of \d+ columns and \d+ rows has room for a QR code, too\.\)/);
  const link = await user.link();
  assert.ok(screen.rows().every((row) => !row.includes(link)), "the link is longer than a row");
  await pause(2_000);
  const left = screen.rows().filter((row) => row.includes("left"));
  assert.equal(left.length, 1, `the time is written over, row by row:\n${screen.rows().join("\n")}`);
  await browser.press(link, "allow");
  const { code, lines } = await screen.ends();
  assert.equal(code, 0);
  assert.deepEqual(lines.slice(-2), ["Signed in as auth0|user_sim (pro).", "Next: `ibeam up`"]);
  screen.run("ibeam whoami --profile other");
  assert.equal((await screen.ends()).code, 1);
  assert.deepEqual(controls(screen.raw()), ["\x1b[2K"], "what writes over a line, and no colour");
});

test("not a terminal: plain lines", SCENE, async (t) => {
  const user = await person(t);
  const { screen } = user;
  screen.run("ibeam login --no-browser 2>&1 | cat -v");
  await screen.shows(/^Waiting for you to sign in, 23:\d\d left\.$/m);
  const link = await user.link();
  await pause(1_500);
  await browser.press(link, "allow");
  const { lines } = await screen.ends();
  assert.deepEqual(
    lines.map((line) => line.replace(/23:\d\d/, "23:59")),
    [
      "Open this link to sign in to Cursor, on any device:",
      "",
      `  ${link}`,
      "",
      "Waiting for you to sign in, 23:59 left.",
      "Signed in as auth0|user_sim (pro).",
      "Next: `ibeam up`",
    ],
  );
});

/** A user with an empty home, in a terminal. */
async function person(t, { env = {}, columns = 100, rows = 50 } = {}) {
  const room = mkdtempSync(join(tmpdir(), "ibeam-login-"));
  let screen;
  t.after(() => {
    screen?.close();
    rmSync(room, { recursive: true, force: true, maxRetries: 5 });
  });
  const [home, bin] = [join(room, "home"), join(room, "bin")];
  for (const folder of [home, bin]) mkdirSync(folder);
  symlinkSync(ibeam, join(bin, "ibeam"));
  const given = { PATH: `${bin}:${process.env.PATH}`, HOME: home, CURSOR_API_URL: cursor.url, ...env };
  screen = await Terminal.open(room, given, { columns, rows });
  const at = (name) => join(home, name);
  const program = (name, line) => {
    const path = join(bin, name);
    writeFileSync(path, `#!/bin/sh\n${line}\n`);
    chmodSync(path, 0o755);
    return path;
  };
  return {
    screen,
    at,
    program,
    /** A file that some program will have written. */
    async file(name) {
      for (let look = 0; look < 200 && !existsSync(at(name)); look += 1) await pause(50);
      return readFileSync(at(name), "utf8");
    },
    /** What the desktop would open links with. */
    opener: (line) => program("xdg-open", line),
    /** The link on the screen, as it would be copied. */
    async link() {
      const [, link] = await screen.shows(LINK);
      assert.ok(link.startsWith(`${cursor.url}/`), link);
      return link;
    },
    assertNothingKept() {
      const left = readdirSync(home, { recursive: true, withFileTypes: true });
      const files = left.filter((entry) => entry.isFile()).map((entry) => entry.name);
      assert.deepEqual(files, []);
    },
  };
}

/** Starts a gateway in the terminal, asks it something with curl, and stops it. */
async function serves({ screen }, command, meanwhile = async () => {}) {
  screen.run(command);
  await meanwhile();
  const [, base] = await screen.shows(/^ {2}Base URL {3}(http:\/\/127\.0\.0\.1:\d+\/v1)$/m);
  await screen.shows(/^\d+ models are ready/m);
  const list = JSON.parse(await curl(`${base}/models`));
  const model = list.data.map((entry) => entry.id).find((id) => id !== "auto");
  assert.ok(model, "the plan has no models");
  const question = { model, messages: [{ role: "user", content: "Hello" }] };
  const body = ["-H", "content-type: application/json", "-d", JSON.stringify(question)];
  const answer = JSON.parse(await curl(`${base}/chat/completions`, ...body));
  assert.equal(answer.choices?.[0]?.finish_reason, "stop", JSON.stringify(answer));
  assert.ok(answer.choices[0].message.content.length > 0);
  const health = JSON.parse(await curl(base.replace(/v1$/, "health")));
  assert.equal(health.auth, "authenticated");
  screen.key("C-c");
  const { code } = await screen.ends();
  assert.equal(code, 0);
  assertRestored(screen);
}

async function curl(...args) {
  const manners = ["--silent", "--show-error", "--max-time", "30", "--noproxy", "*"];
  const { stdout } = await promisify(execFile)("curl", [...manners, ...args]);
  return stdout;
}

/** Two looks at the screen, and time has passed between them. */
async function countsDown(screen) {
  const left = async () => {
    const [, minutes, seconds] = await screen.shows(WAITING);
    return Number(minutes) * 60 + Number(seconds);
  };
  const first = await left();
  assert.ok(first > 22 * 60 && first < 24 * 60, `${first} s`);
  await pause(2_500);
  const second = await left();
  assert.ok(first - second >= 2 && first - second <= 20, `${first} s, then ${second} s`);
  const spinner = () => screen.text().match(/^(\S) Waiting/m)?.[1];
  const seen = new Set();
  for (let look = 0; look < 40 && seen.size < 3; look += 1) {
    seen.add(spinner());
    await pause(60);
  }
  assert.ok(seen.size >= 3 && ![...seen].some((frame) => !/[\u2800-\u28ff]/.test(frame)), [...seen].join());
}

/** The terminal is as it was before, and the shell's again. */
function assertRestored(screen) {
  assert.equal(screen.fact("pane_current_command"), "sh");
  assert.equal(screen.fact("cursor_flag"), "1", "the cursor is hidden");
  assert.equal(screen.fact("alternate_on"), "0", "another screen is shown");
  assert.equal(screen.settings(), screen.first, "line editing, echo and the like");
}

/** The kinds of control sequences in a text. */
function controls(text) {
  return [...new Set(text.match(/\x1b(\[[0-9;?]*[@-~]|[^[])/g))].sort();
}

function mode(path) {
  return (statSync(path).mode & 0o777).toString(8);
}

/** `ibeam sim` with a page to sign in. */
async function simulator() {
  const home = mkdtempSync(join(tmpdir(), "ibeam-sim-"));
  const child = spawn(ibeam, ["sim", "--login-page"], {
    env: { PATH: process.env.PATH, HOME: home },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise((resolve) => child.once("close", resolve));
  process.once("exit", () => child.kill("SIGKILL"));
  const url = await new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => reject(new Error(`the simulator ended with ${code}`)));
    child.stdout.setEncoding("utf8").once("data", (text) => resolve(text.trim()));
  });
  return {
    url,
    async stop() {
      child.kill("SIGTERM");
      await ended;
      rmSync(home, { recursive: true, force: true });
    },
  };
}
