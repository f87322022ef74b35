// The MCP server that offers a client's tools, against the protocol's own test of servers and
// its official SDK.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const here = dirname(fileURLToPath(import.meta.url));
const packages = join(here, "node_modules");
// The conformance test needs a newer Node than these tests.
const newerNode = join(packages, "node/bin/node");

let host;
let address;

before(async () => {
  host = spawn(process.env.IBEAM_MCP_HOST, { stdio: ["ignore", "pipe", "inherit"] });
  const [line] = await once(createInterface({ input: host.stdout }), "line");
  address = JSON.parse(line);
});
after(async () => {
  const ended = once(host, "exit");
  host.kill("SIGINT");
  const [code] = await ended;
  assert.equal(code, 0);
});

async function connect() {
  const transport = new StreamableHTTPClientTransport(new URL(address.url), {
    requestInit: { headers: { authorization: `Bearer ${address.bearer}` } },
  });
  const client = new Client({ name: "ibeam-interop", version: "1.0.0" });
  await client.connect(transport);
  return { client, transport };
}

test("the conformance test of servers, all of it", { timeout: 300_000 }, async () => {
  const args = [
    ...["--import", join(here, "bearer.mjs")],
    join(packages, "@modelcontextprotocol/conformance/dist/index.js"),
    ...["server", "--url", address.url, "--suite", "all"],
    ...["--expected-failures", join(here, "left-out.yaml")],
  ];
  const env = { ...process.env, MCP_BEARER: address.bearer };
  const child = spawn(newerNode, args, { env, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => (output += data));
  const [code] = await once(child, "close");
  console.log(output.slice(-6_000));
  assert.equal(code, 0, output);
});

test("the SDK waits for an answer that takes 20 seconds, and hears of it", { timeout: 60_000 }, async () => {
  const { client, transport } = await connect();
  assert.ok(transport.sessionId, "there is a session");
  const heard = [];
  const began = Date.now();
  const result = await client.callTool({ name: "slow", arguments: { seconds: 20, word: "wherever" } }, undefined, {
    // Shorter than the call: only progress keeps it from being given up.
    timeout: 8_000,
    resetTimeoutOnProgress: true,
    onprogress: (progress) => heard.push(progress.progress),
  });
  assert.deepEqual(result.content, [{ type: "text", text: "wherever" }]);
  const took = (Date.now() - began) / 1000;
  assert.ok(took >= 20 && took < 30, `${took} s`);
  assert.ok(heard.length >= 3, `${heard}`);
  assert.deepEqual(heard, [...heard].sort((a, b) => a - b));
  await transport.terminateSession();
  await client.close();
});

test("the SDK takes a call back, and the host is told", { timeout: 30_000 }, async () => {
  const { client } = await connect();
  const giveUp = new AbortController();
  const call = client.callTool({ name: "slow", arguments: { seconds: 600, word: "never" } }, undefined, {
    signal: giveUp.signal,
  });
  setTimeout(() => giveUp.abort(), 500);
  await assert.rejects(call);
  // The host counts what it was told.
  for (;;) {
    const { content } = await client.callTool({ name: "dropped" });
    if (content[0].text === "1") break;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  await client.close();
});

test("the SDK sees the tools as they were written, and an unknown one is an error", async () => {
  const { client } = await connect();
  const { tools } = await client.listTools();
  const slow = tools.find((tool) => tool.name === "slow");
  assert.deepEqual(slow.inputSchema, {
    type: "object",
    properties: { seconds: { type: "number" }, word: { type: "string" } },
    required: ["seconds", "word"],
  });
  await assert.rejects(client.callTool({ name: "unknown" }), /unknown tool/);
  await client.close();
});

test("without its bearer nobody comes in", async () => {
  const client = new Client({ name: "ibeam-interop", version: "1.0.0" });
  await assert.rejects(client.connect(new StreamableHTTPClientTransport(new URL(address.url))));
});
