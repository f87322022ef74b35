// The plugin's own logic, with a script in the place of the program.

import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { adopt } from "../dist/adopt.js";
import { findBinary, platformPackages } from "../dist/binary.js";
import { oneLine } from "../dist/child.js";
import { Connection, proofOf, readGateway, starter } from "../dist/gateway.js";
import plugin from "../dist/index.js";
import { Cache, listModels } from "../dist/list.js";
import { described, merged, readModels } from "../dist/models.js";
import { olderModels, plain } from "../dist/older.js";
import { readOptions } from "../dist/options.js";
import { isRefused, sender } from "../dist/send.js";
import { forLogin, readLink } from "../dist/signin.js";

const CARD = {
  id: "claude-opus-5",
  name: "Opus 5",
  context_window: 300_000,
  max_output_tokens: 64_000,
  capabilities: { tools: true, images: true, reasoning: true, efforts: ["low", "high", "max"] },
};

function room(t) {
  const folder = mkdtempSync(join(tmpdir(), "ibeam-plugin-"));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

function script(folder, text, name = "ibeam") {
  mkdirSync(folder, { recursive: true });
  const path = join(folder, name);
  writeFileSync(path, `#!/bin/sh\n${text}\n`);
  chmodSync(path, 0o755);
  return path;
}

/** A server on a port of its own. With a key, it shows that it has that. */
async function listen(t, handler, key) {
  const server = createServer((request, response) => {
    const challenge = request.headers["x-ibeam-challenge"];
    if (!key || !challenge) return handler(request, response);
    const url = `http://127.0.0.1:${server.address().port}`;
    response.setHeader("x-ibeam-proof", proofOf({ url, key: key() }, challenge));
    json(response, 200, {});
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const stop = () => new Promise((resolve) => (server.closeAllConnections(), server.close(resolve)));
  t.after(stop);
  return { url: `http://127.0.0.1:${server.address().port}`, stop };
}

const json = (response, status, body) => {
  response.writeHead(status, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
};

test("the program is found where the user says, in the package, then in PATH", (t) => {
  const folder = room(t);
  const packaged = script(join(folder, "package"), "");
  const inPath = script(join(folder, "path"), "");
  const mine = script(folder, "", "mine");
  const here = {
    env: { PATH: `relative::${join(folder, "path")}` },
    platform: "linux",
    arch: "x64",
    home: folder,
    musl: false,
    packaged: (file) => (file === "ibeam-linux-x64/bin/ibeam" ? packaged : undefined),
  };
  const bare = { ...here, packaged: () => undefined };
  assert.deepEqual(findBinary(mine, here), { path: mine });
  assert.deepEqual(findBinary("~/mine", here), { path: mine });
  assert.deepEqual(findBinary("ibeam", here), { path: inPath });
  assert.deepEqual(findBinary(undefined, { ...here, env: { IBEAM_BIN: mine } }), { path: mine });
  assert.deepEqual(findBinary(undefined, here), { path: packaged });
  assert.deepEqual(findBinary(undefined, bare), { path: inPath });
  // What was named and is not there is no reason to run something else.
  assert.match(findBinary("/nowhere/ibeam", here).missing, /option `bin` names \/nowhere\/ibeam/);
  assert.match(findBinary(undefined, { ...bare, env: {} }).missing, /`ibeam` is not installed/);
  assert.deepEqual(platformPackages({ platform: "linux", arch: "arm64", musl: true }), ["ibeam-linux-arm64-musl"]);
  assert.deepEqual(platformPackages({ platform: "win32", arch: "x64", musl: false }), ["ibeam-win32-x64"]);
});

test("options: the provider's count more, and wrong ones are named", () => {
  const { options, complaints } = readOptions({ timeout: 5, bin: "a" }, { timeout: 9, sessionReuse: false });
  assert.deepEqual(options, { bin: "a", args: [], sessionReuse: false, cacheModels: true, timeout: 9 });
  assert.deepEqual(complaints, []);
  const wrong = readOptions({ sessionReuse: "no", timeout: -1, cacheModels: 0, bin: "", args: "--sim" }, null, "text");
  assert.deepEqual(wrong.options, { bin: undefined, args: [], sessionReuse: true, cacheModels: true, timeout: undefined });
  assert.equal(wrong.complaints.length, 5);
  const args = ["--sim", "--profile", "work", "--set=port=1", "--backend", "cli"];
  assert.deepEqual(readOptions({ args }).options.args, args);
  assert.deepEqual(forLogin(args), ["--profile", "work", "--set=port=1"]);
});

test("a gateway is taken only on this machine", () => {
  const line = (url) => JSON.stringify({ url, key: "ibi_x", pid: 7, authenticated: true });
  assert.deepEqual(readGateway(line("http://127.0.0.1:1/")), { url: "http://127.0.0.1:1", key: "ibi_x", pid: 7 });
  for (const bad of [line("http://example.com"), line("https://127.0.0.1"), "{}", "null", "no"]) {
    assert.equal(readGateway(bad), undefined, bad);
  }
  assert.equal(readLink('{"event":"link","url":"https://cursor.com/x"}'), "https://cursor.com/x");
  for (const bad of [undefined, "", '{"event":"link","url":"file:///x"}', '{"url":"https://x"}']) assert.equal(readLink(bad), undefined);
  assert.equal(oneLine("\u001b[31merror\u001b[0m: it broke\n  more\nhint: fix it\n"), "it broke; fix it");
});

test("it starts once for all who wait, and a failure says why", async (t) => {
  const folder = room(t);
  const { url } = await listen(t, () => {}, () => "ibi_1");
  const answer = `{"url":"${url}","key":"ibi_1","pid":1,"authenticated":true}`;
  const path = script(folder, `echo "$@" >> '${folder}/asked'; sleep 0.2; echo '${answer}'`);
  const connection = new Connection(starter(() => ({ path }), () => ["--sim"]));
  const all = await Promise.all([connection.get(), connection.get(), connection.get()]);
  assert.deepEqual(new Set(all.map((one) => one.key)), new Set(["ibi_1"]));
  assert.equal(readFileSync(join(folder, "asked"), "utf8"), "start --json --sim\n");

  const broken = script(folder, "echo 'error: port is taken' >&2; echo 'hint: free it' >&2; exit 1", "broken");
  assert.deepEqual(await starter(() => ({ path: broken }))(5_000), { problem: "`ibeam start` failed: port is taken; free it" });
  const slow = script(folder, "exec sleep 30", "slow");
  const before = Date.now();
  assert.match((await starter(() => ({ path: slow }))(300)).problem, /no answer within 0.3 s/);
  assert.ok(Date.now() - before < 10_000);
  assert.match((await starter(() => ({ path: "/nowhere" }))(300)).problem, /ENOENT/);
  assert.deepEqual(await starter(() => ({ missing: "gone" }))(300), { problem: "gone" });
});

test("a gateway that ended is replaced, and the request sent again once", async (t) => {
  const seen = [];
  const alive = await listen(t, (request, response) => {
    let body = "";
    request.on("data", (chunk) => (body += chunk));
    request.on("end", () => {
      seen.push([request.url, request.headers.authorization, request.headers["x-ibeam-session-reuse"], body]);
      json(response, 200, {});
    });
  }, () => "ibi_1");
  const dead = await listen(t, () => {}, () => "ibi_0");
  // It ends after it has answered the challenge, and before the request.
  const late = async (...request) => (await dead.stop(), fetch(...request));
  const gateways = [dead.url, alive.url].map((url, at) => ({ url, key: `ibi_${at}`, pid: at }));
  let starts = 0;
  const connection = new Connection(async () => gateways[starts++]);
  const init = { method: "POST", body: "words", headers: { authorization: "Bearer other", "x-api-key": "other" } };
  const answer = await sender(connection, true, late)("http://127.0.0.1:18741/v1/chat/completions?a=1", init);
  assert.equal(answer.status, 200);
  assert.equal(starts, 2);
  assert.deepEqual(seen, [["/v1/chat/completions?a=1", "Bearer ibi_1", undefined, "words"]]);
  await sender(connection, false)(`${dead.url}/v1/models`);
  assert.deepEqual(seen[1], ["/v1/models", "Bearer ibi_1", "off", ""]);
});

test("a key of before is renewed; a sign-in that is over, and a cut answer, are not asked again", async (t) => {
  let asked = 0;
  const answers = [
    (response) => json(response, 401, { error: { code: "invalid_api_key" } }),
    (response) => json(response, 200, {}),
    (response) => json(response, 401, { error: { code: "not_authenticated" } }),
    (response) => response.destroy(),
  ];
  let starts = 0;
  const { url } = await listen(t, (_, response) => answers[asked++](response), () => `ibi_${starts - 1}`);
  const connection = new Connection(async () => ({ url, key: `ibi_${starts++}`, pid: 1 }));
  const send = sender(connection, true);
  assert.equal((await send(`${url}/v1/x`, { method: "POST", body: "a" })).status, 200);
  assert.equal(starts, 2);
  const signedOut = await send(`${url}/v1/x`);
  assert.equal(signedOut.status, 401);
  assert.match((await signedOut.json()).error.message, /^ibeam: not signed in to Cursor; run `opencode auth login`/);
  await assert.rejects(send(`${url}/v1/x`, { method: "POST", body: "a" }));
  assert.deepEqual([starts, asked], [2, 4]);
  assert.ok(!isRefused(new Error("reset", { cause: { code: "ECONNRESET" } })));
  assert.ok(isRefused({ code: "ConnectionRefused" }));
});

test("without a gateway a request gets the reason, in the API's shape", async () => {
  const answer = await sender(new Connection(async () => ({ problem: "no program" })), true)("http://x/v1/y");
  assert.equal(answer.status, 400);
  assert.equal((await answer.json()).error.message, "ibeam: no program");
  // Who gives up does not wait for a gateway that is slow to start.
  const never = sender(new Connection(() => new Promise(() => {})), true);
  const gone = new AbortController();
  const asked = never("http://x/v1/y", { signal: gone.signal });
  gone.abort();
  await assert.rejects(asked, { name: "AbortError" });
});

test("after a pause it has to show that it is still the gateway", async (t) => {
  let now = 0;
  let key = "ibi_0";
  const seen = [];
  const { url } = await listen(t, (request, response) => {
    seen.push(request.headers.authorization);
    const challenge = request.headers["x-ibeam-challenge"];
    if (key) response.setHeader("x-ibeam-proof", proofOf({ url, key }, challenge));
    json(response, 200, { backend: "agent", version: "1" });
  });
  let starts = 0;
  const connection = new Connection(async () => ({ url, key: `ibi_${starts++}`, pid: 1 }), fetch, () => now);
  assert.equal((await connection.get()).key, "ibi_0");
  now += 3_600_000;
  assert.equal((await connection.get()).key, "ibi_0");
  // It was started again, with another key.
  key = "ibi_1";
  now += 3_600_000;
  assert.equal((await connection.get()).key, "ibi_1");
  assert.deepEqual([starts, new Set(seen)], [2, new Set([undefined])]);
});

test("a program that has taken the port gets neither key nor prompt", async (t) => {
  const seen = [];
  const real = { url: "http://127.0.0.1:9", key: "ibi_0", pid: 1 };
  const { url } = await listen(t, (request, response) => {
    seen.push([request.method, request.url, request.headers.authorization]);
    // It answers as a gateway would, with what the real one says on another port.
    response.setHeader("x-ibeam-proof", proofOf(real, request.headers["x-ibeam-challenge"]));
    json(response, 200, { backend: "agent", version: "1" });
  });
  const send = sender(new Connection(async () => ({ ...real, url })), true);
  const answer = await send(`${url}/v1/chat/completions`, { method: "POST", body: "secret words" });
  assert.equal(answer.status, 400);
  assert.match((await answer.json()).error.message, /is not your gateway.*Nothing was sent/);
  assert.deepEqual(new Set(seen.map(String)), new Set([["GET", "/health", undefined].toString()]));
  // A program that does not answer the challenge at all gets nothing either.
  const mute = await listen(t, (request, response) => (seen.push(request.url), response.destroy()));
  seen.length = 0;
  const refused = await sender(new Connection(async () => ({ ...real, url: mute.url })), true)(`${url}/v1/x`);
  assert.match((await refused.json()).error.message, /does not answer/);
  assert.deepEqual(new Set(seen), new Set(["/health"]));
});

test("the proof is the one that the program gives", () => {
  const gateway = { url: "http://127.0.0.1:18741", key: "ibi_test" };
  assert.equal(proofOf(gateway, "00".repeat(32)), "60f87bbb92b1ba8a374127f92582eef485782b1afade6728a8d9b56ecacc7c4a");
});

test("models: names, limits, capabilities and efforts", () => {
  const [model, other] = readModels({ data: [CARD, { id: "auto" }, { name: "no id" }, 7] });
  const entry = described(model);
  assert.deepEqual(entry, {
    name: "Opus 5",
    attachment: true,
    reasoning: true,
    temperature: false,
    tool_call: true,
    limit: { context: 300_000, output: 64_000 },
    modalities: { input: ["text", "image"], output: ["text"] },
    cost: { input: 0, output: 0, cache_read: 0, cache_write: 0 },
    variants: {
      medium: { disabled: true },
      low: { reasoningEffort: "low" },
      high: { reasoningEffort: "high" },
      max: { reasoningEffort: "max" },
    },
  });
  // Without a limit OpenCode would count with none at all.
  assert.deepEqual(described(other).limit, { context: 200_000, output: 32_000 });
  assert.equal(described(other).variants, undefined);
  for (const wrong of [null, {}, { data: 1 }, "x"]) assert.equal(readModels(wrong), undefined);
});

test("what the user wrote about a model stays", () => {
  const offered = readModels({ data: [CARD] });
  const own = {
    "claude-opus-5": { name: "Mine", limit: { context: 1, output: 2 } },
    custom: { id: "claude-opus-5", cost: { input: 3, output: 4 } },
    old: { id: "old", name: "Old" },
    unknown: { name: "Else" },
  };
  const before = structuredClone(own);
  const older = new Map([["old", { id: "claude-opus-5", npm: "@ai-sdk/openai-compatible" }]]);
  const all = merged(offered, own, older);
  assert.deepEqual(own, before);
  assert.equal(all["claude-opus-5"].name, "Mine");
  assert.deepEqual(all["claude-opus-5"].limit, { context: 1, output: 2 });
  assert.equal(all["claude-opus-5"].reasoning, true);
  assert.deepEqual(all.custom.cost, { input: 3, output: 4 });
  assert.deepEqual(all.custom.limit, { context: 300_000, output: 64_000 });
  assert.deepEqual([all.old.id, all.old.name, all.old.provider.npm], ["claude-opus-5", "Old", "@ai-sdk/openai-compatible"]);
  assert.deepEqual(all.unknown, { name: "Else" });
});

test("the older way of naming a model is read from the user's files", async (t) => {
  const folder = room(t);
  const write = (path, text) => {
    mkdirSync(join(folder, path, ".."), { recursive: true });
    writeFileSync(join(folder, path), text);
  };
  const models = (id) => `{"provider": {"cursor": {"models": {"mine": {"api": {"id": "${id}"}},}}}}`;
  write("config/opencode/opencode.jsonc", `// "a comment"\n/* { */ ${models("far")}`);
  write("project/opencode.json", models("near"));
  write("project/deep/opencode.json", "{ broken");
  // Nobody writes into it: who reads it waits.
  execFileSync("mkfifo", [join(folder, "project/opencode.jsonc")]);
  const found = await olderModels("cursor", join(folder, "project/deep"), { XDG_CONFIG_HOME: join(folder, "config") }, folder);
  assert.deepEqual([...found], [["mine", { id: "near" }]]);
  assert.deepEqual(JSON.parse(plain('{"a": "//x, }", /* y */ "b": [1,],}')), { a: "//x, }", b: [1] });
});

test("the last list serves while the gateway is slow, and not after signing out", async (t) => {
  const folder = room(t);
  const cache = new Cache(join(folder, "deep/models.json"), "default|");
  let delay = 0;
  let answer = [200, { data: [CARD] }];
  const { url } = await listen(t, (_, response) => setTimeout(() => json(response, ...answer), delay), () => "k");
  const gateway = { url, key: "k", pid: 1 };
  const list = (kept, patience) => listModels(new Connection(async () => gateway), kept, patience);
  const first = await list(cache);
  assert.deepEqual([first.models.map((model) => model.id), first.problem], [["claude-opus-5"], undefined]);
  delay = 2_000;
  const slow = await list(cache, { withCache: 50, without: 5_000 });
  assert.deepEqual(slow.models, first.models);
  assert.match(slow.problem, /within 0.05 s/);
  assert.deepEqual((await list(undefined, { withCache: 50, without: 50 })).models, []);
  assert.equal(await new Cache(join(folder, "deep/models.json"), "work|").read(), undefined);
  writeFileSync(join(folder, "deep/models.json"), JSON.stringify({ of: "default|", models: first.models, more: "x".repeat(3_000_000) }));
  assert.equal(await cache.read(), undefined, "more than it ever writes is not read");
  await cache.write(first.models);
  delay = 0;
  answer = [401, { error: { code: "not_authenticated" } }];
  const out = await list(cache);
  assert.deepEqual(out.models, []);
  assert.match(out.problem, /opencode auth login/);
});

test("nothing throws, whatever is wrong", async (t) => {
  const folder = room(t);
  const env = { IBEAM_BIN: process.env.IBEAM_BIN, XDG_CACHE_HOME: process.env.XDG_CACHE_HOME };
  t.after(() => Object.entries(env).forEach(([name, value]) => (value === undefined ? delete process.env[name] : (process.env[name] = value))));
  process.env.IBEAM_BIN = join(folder, "nowhere");
  process.env.XDG_CACHE_HOME = folder;
  const said = t.mock.method(process.stderr, "write", () => true);
  process.argv.splice(2, 0, "run");
  t.after(() => process.argv.splice(2, 1));
  assert.deepEqual(Object.keys(plugin), ["id", "server"]);
  for (const [input, options] of [[{ directory: folder }, undefined], [{ client: null, directory: folder }, { timeout: "x" }], [{}, 7]]) {
    const hooks = await plugin.server(input, options);
    for (const config of [{}, { model: "cursor/gpt-5.5", small_model: "other/x" }, { provider: { cursor: { models: { a: { name: "A" } } } } }, { provider: { cursor: 3 } }, Object.freeze({})]) {
      await hooks.config(config);
      if (!Object.isFrozen(config)) {
        assert.equal(config.provider.cursor.name, "Cursor");
        assert.equal(config.provider.cursor.models.auto.name, "Auto");
      }
      if (config.model) assert.deepEqual(Object.keys(config.provider.cursor.models), ["auto", "gpt-5.5"]);
      if (config.provider?.cursor.models.a) assert.equal(config.provider.cursor.models.a.name, "A");
    }
    const loaded = await hooks.auth.loader(() => Promise.reject(new Error("no store")), {});
    assert.equal(loaded.apiKey, "ibeam");
    assert.equal((await loaded.fetch("http://x/v1/y")).status, 400);
    for (const method of hooks.auth.methods) {
      const way = await method.authorize({});
      assert.equal((await way.callback()).type, "failed");
    }
  }
  const lines = said.mock.calls.map((call) => String(call.arguments[0])).filter((line) => line.includes("nowhere"));
  assert.match(lines[0], /^ibeam: IBEAM_BIN names .*nowhere, which is not a program\n$/);
});

test("signing in goes through the program, and only a word is kept", async (t) => {
  const folder = room(t);
  const path = script(
    folder,
    `case "$*" in
    "login --no-browser --json") echo '{"event":"link","url":"https://cursor.com/in"}'; echo '{"event":"signed_in"}';;
    "login --api-key-stdin") cat > '${folder}/key';;
    *) exit 9;;
    esac`,
  );
  const hooks = await plugin.server({ directory: folder }, { bin: path });
  const [browser, key] = hooks.auth.methods;
  assert.deepEqual([browser.label, key.label], ["Sign in with Cursor", "Cursor API key"]);
  const way = await browser.authorize();
  assert.equal(way.url, "https://cursor.com/in");
  assert.deepEqual(await way.callback(), { type: "success", key: "ibeam" });
  const typed = await key.authorize({ key: " crsr_1 " });
  assert.ok(!existsSync(join(folder, "key")));
  assert.deepEqual(await typed.callback(), { type: "success", key: "ibeam" });
  assert.equal(readFileSync(join(folder, "key"), "utf8"), "crsr_1\n");

  // A key that was typed into OpenCode's own form does not stay in its store.
  const kept = [];
  const client = { auth: { set: async (entry) => kept.push(entry) } };
  const others = await plugin.server({ directory: folder, client }, { bin: path });
  await others.auth.loader(async () => ({ type: "api", key: "crsr_2" }), {});
  assert.equal(readFileSync(join(folder, "key"), "utf8"), "crsr_2\n");
  assert.deepEqual(kept, [{ path: { id: "cursor" }, body: { type: "api", key: "ibeam" } }]);
});

test("a key in the store holds nobody up, and one that is refused is tried once", { timeout: 20_000 }, async (t) => {
  const folder = room(t);
  const said = [];
  const kept = [];
  const adoption = (path, key) => ({
    stored: async () => ({ type: "api", key }),
    find: () => ({ path }),
    flags: () => ["--sim", "--profile", "work"],
    keep: async (word) => kept.push(word),
    say: (text) => said.push(text),
  });
  const refusing = adoption(script(folder, `echo "$@" >> '${folder}/asked'; cat > /dev/null; echo 'error: no such key' >&2; exit 1`), "crsr_bad");
  await Promise.all([adopt(refusing), adopt(refusing)]);
  await adopt(refusing);
  assert.equal(readFileSync(join(folder, "asked"), "utf8"), "login --api-key-stdin --profile work\n");
  assert.deepEqual(said, ["cannot import the key from OpenCode's store: no such key"]);

  // The program is slow, or OpenCode's server waits for the plugin.
  const slow = adoption(script(folder, `while [ ! -e '${folder}/go' ]; do sleep 0.05; done`, "slow"), "crsr_slow");
  await adopt(slow, 20);
  assert.deepEqual(kept, []);
  writeFileSync(join(folder, "go"), "");
  await adopt(slow);
  assert.deepEqual(kept, ["ibeam"]);
  await adopt({ ...slow, keep: () => new Promise(() => {}) }, 500);
});

test("a sign-in that waits for the user ends with OpenCode", { timeout: 20_000 }, async (t) => {
  const folder = room(t);
  const path = script(folder, `echo $$ > '${folder}/pid'; echo '{"event":"link","url":"https://cursor.com/in"}'; exec sleep 600`);
  const text = `
    const { default: plugin } = await import(${JSON.stringify(new URL("../dist/index.js", import.meta.url).href)});
    const hooks = await plugin.server({}, { bin: ${JSON.stringify(path)} });
    await hooks.auth.methods[0].authorize();
    process.exit(0);`;
  const ended = spawnSync(process.execPath, ["--input-type=module", "-e", text], { encoding: "utf8" });
  assert.equal(ended.status, 0, ended.stderr);
  const pid = Number(readFileSync(join(folder, "pid"), "utf8"));
  const lives = () => {
    try {
      return process.kill(pid, 0);
    } catch {
      return false;
    }
  };
  while (lives()) await new Promise((resolve) => setTimeout(resolve, 10));
});
