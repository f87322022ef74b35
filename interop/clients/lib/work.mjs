// A real client does a piece of work through `ibeam up --sim`: it must do the whole of it
// itself, and the gateway must do it in one upstream run and touch nothing.

import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { serve } from "./gateway.mjs";
import { start } from "./group.mjs";
import { tap } from "./tap.mjs";
import { task } from "./task.mjs";

const packages = join(dirname(fileURLToPath(import.meta.url)), "../node_modules");
const RUN_MS = 180_000;

/** Cursor's own tools are tried first; each that the client can do must reach it. */
const NATIVE = 'quirks = ["native_tools_first"]\n';
/** The simulator names the tool that answered: these are Cursor's own, not a client's. */
const OWN = ["read_file", "run_terminal_cmd"];

/** A program of an npm package. */
export const program = (name) => join(packages, ".bin", name);
/** The newer Node that some of them want. */
export const newerNode = join(packages, "node/bin/node");

/**
 * One test. `client` says how to run it:
 * - `launch({ home, project, url, text, file })` prepares its home and gives `{ line, env }`,
 *   and `finish` if something is left to do and to be checked at the end;
 * - `api` is the one it speaks, `tools` the calls it must make, in order;
 * - `socket` tells that it speaks over a WebSocket;
 * - `answer(out)` reads its last words out of what it printed;
 * - `wanted` goes to the task.
 */
export function does(name, client) {
  test(name, { timeout: 2 * RUN_MS }, (t) => work(t, client, ""));
}

/** The same through Cursor's own tools, which the gateway hands to the client. */
export function doesNatively(name, client) {
  test(`${name}, through Cursor's own tools`, { timeout: 2 * RUN_MS }, async (t) => {
    const answer = await work(t, client, NATIVE);
    for (const own of OWN) assert.match(answer, new RegExp(`^${own} answered:`, "m"), answer);
  });
}

async function work(t, client, scenario) {
  const { launch, api, tools = [], socket = false, answer = (out) => out, wanted = {} } = client;
  const room = mkdtempSync(join(tmpdir(), "ibeam-client-"));
  t.after(() => rmSync(room, { recursive: true, force: true, maxRetries: 5 }));
  const [project, home, temp, own] = ["project", "home", "temp", "gateway"].map((name) => {
    const folder = join(room, name);
    mkdirSync(folder);
    return folder;
  });
  const gateway = await serve(t, own, scenario);
  const wire = await tap(gateway.url);
  t.after(() => wire.stop());
  const order = task(project, wanted);

  // A home of its own: no setting of this machine takes part.
  const { line, env = {}, finish } =
    await launch({ home, project, url: wire.url, text: order.text, file: order.notes });
  const [name, ...args] = line;
  const surroundings = { PATH: process.env.PATH, HOME: home, TMPDIR: temp, ...env };
  const running = start(name, args, { cwd: project, env: surroundings });
  t.after(() => running.stop());
  const story = () =>
    [
      `task: ${order.text}`,
      ...wire.seen.map(lineOf),
      `client: ${short(running.out() + running.err())}`,
      `gateway: ${gateway.log().slice(-6_000)}`,
    ].join("\n");
  const limit = setTimeout(() => running.stop(), RUN_MS);
  const end = await running.ended.finally(() => clearTimeout(limit));
  assert.equal(end.code, 0, `the client ended with ${end.code ?? end.signal}\n${story()}`);

  // The work is done, and the answer knows what only files and command could tell.
  assert.deepEqual(order.wrong(), [], story());
  const said = answer(running.out());
  for (const part of order.told) assert.ok(said.includes(part), `${part} was not told\n${story()}`);
  assert.doesNotMatch(running.out() + running.err(), /\b(warn(ing)?s?|errors?|deprecated)\b/i, story());

  // Each step of the chain was asked once, streamed, and answered to the end.
  // (`generate: false` asks for nothing: it only makes a connection ready.)
  const asked = wire.seen.filter((entry) => entry.path === api.path && entry.body?.generate !== false);
  assert.deepEqual(wire.seen.filter((entry) => entry.status !== 200).map(lineOf), [], story());
  assert.ok(asked.every((entry) => entry.body.stream === true), `one was not streamed\n${story()}`);
  for (const entry of asked) assert.ok(api.ended(entry.text), `no ending:\n${entry.text.slice(-600)}`);
  const chain = asked.filter((entry) => tools.length === 0 || api.offers(entry.body));
  assert.equal(chain.length, tools.length + 1, story());
  assert.ok(chain.every((entry) => (entry.id === null) === socket), `not the way it should go\n${story()}`);
  assert.deepEqual(chain.flatMap((entry) => api.calls(entry.text)), tools, story());

  // One upstream run for all of it. Requests for a title have one of their own.
  const titles = new Set(asked.filter((entry) => !chain.includes(entry)).map((entry) => entry.id));
  assert.ok(chain.every((entry) => entry.id !== "" && !titles.has(entry.id)), story());
  const runs = gateway.opened().filter((id) => !titles.has(id));
  assert.equal(runs.length, 1, `upstream runs of the chain\n${story()}`);

  await finish?.();

  // The gateway's process never so much as looked at the project.
  await gateway.stop();
  const calls = gateway.calls();
  if (calls === null) {
    t.diagnostic("strace is not installed: what the gateway touches was not watched");
  } else {
    assert.match(calls, /execve\(.*ibeam/, "the trace is empty");
    for (const name of [project, ...order.names]) {
      const touched = calls.split("\n").filter((line) => line.includes(name));
      assert.deepEqual(touched, [], `the gateway touched ${name}`);
    }
  }
  return said;
}

const lineOf = (entry) => `${entry.method} ${entry.path} ${entry.status} ${entry.id}`;

/** A story that can be read: events of a client hold whole files. */
function short(text) {
  return text.split("\n").map((line) => line.slice(0, 300)).join("\n");
}
