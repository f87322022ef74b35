// Public MCP servers as a user's: over pipes, HTTP and the older transport, by command and
// inside a turn.

import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { desk, everything, server } from "./lib/desk.mjs";

const toml = (value) => JSON.stringify(value);
const node = (name, more = []) =>
  `command = ${toml(process.execPath)}\nargs = ${toml([server(name), ...more])}\n`;

test("server-everything over pipes: list, tools, call", async (t) => {
  const here = desk(`[mcp]\nenabled = true\n[mcp.servers.every]\n${node("everything", ["stdio"])}`);
  t.after(here.done);
  const list = await here.run("mcp", "list", "--json");
  assert.equal(list.code, 0, list.stderr);
  const [row] = JSON.parse(list.stdout);
  assert.equal(row.state, "ready", list.stdout);
  assert.equal(row.kind, "stdio");
  assert.ok(row.tools > 5, list.stdout);
  const tools = await here.run("mcp", "tools", "every", "--json");
  const names = JSON.parse(tools.stdout).map((tool) => tool.id);
  assert.ok(names.includes("mcp__every__echo"), names.join(" "));
  const echo = await here.run("mcp", "call", "every", "echo", '{"message":"hello"}');
  assert.equal(echo.code, 0, echo.stderr);
  assert.match(echo.stdout, /hello/);
  const wrong = await here.run("mcp", "call", "every", "echo", '{"message":7}');
  assert.equal(wrong.code, 1, wrong.stdout);
  const missing = await here.run("mcp", "call", "every", "nothing");
  assert.equal(missing.code, 1);
  assert.match(missing.stderr, /has no tool `nothing`/);
});

test("server-filesystem reads what it may", async (t) => {
  const here = desk("");
  t.after(here.done);
  writeFileSync(join(here.home, "note.txt"), "forty-two");
  writeFileSync(
    join(here.home, "config.toml"),
    `[mcp.servers.files]\n${node("filesystem", [here.home])}`,
  );
  const path = toml({ path: join(here.home, "note.txt") });
  const read = await here.run("mcp", "call", "files", "read_text_file", path);
  assert.equal(read.code, 0, read.stderr);
  assert.match(read.stdout, /forty-two/);
  const denied = await here.run("mcp", "call", "files", "read_text_file", '{"path":"/etc/hosts"}');
  assert.equal(denied.code, 1, denied.stdout);
});

test("server-memory remembers, and is found in another program's file", async (t) => {
  const here = desk("[mcp]\ndiscover = true\n");
  t.after(here.done);
  const env = { MEMORY_FILE_PATH: "${STORE:-" + join(here.home, "memory.jsonl") + "}" };
  const entry = { command: process.execPath, args: [server("memory")], env };
  writeFileSync(join(here.home, ".mcp.json"), toml({ mcpServers: { memory: entry } }));
  const before = JSON.parse((await here.run("mcp", "list", "--json")).stdout);
  assert.equal(before[0].state, "unapproved");
  const approved = await here.run("mcp", "approve", "--yes");
  assert.equal(approved.code, 0, approved.stderr);
  const list = JSON.parse((await here.run("mcp", "list", "--json")).stdout);
  assert.equal(list[0].state, "off", "nothing starts by itself");
  assert.equal(list[0].use, "found");
  const entities = [{ name: "ibeam", entityType: "program", observations: ["is a gateway"] }];
  const made = await here.run("mcp", "call", "memory", "create_entities", toml({ entities }));
  assert.equal(made.code, 0, made.stderr);
  const graph = await here.run("mcp", "call", "memory", "read_graph");
  assert.match(graph.stdout, /is a gateway/);
});

for (const [transport, path] of [
  ["streamableHttp", "/mcp"],
  ["sse", "/sse"],
]) {
  test(`server-everything over ${transport}`, async (t) => {
    const remote = await everything(transport);
    t.after(remote.stop);
    const here = desk(`[mcp.servers.far]\nurl = ${toml(remote.url + path)}\n`);
    t.after(here.done);
    const tools = await here.run("mcp", "tools", "far");
    assert.equal(tools.code, 0, tools.stderr);
    assert.match(tools.stdout, /echo/);
    const echo = await here.run("mcp", "call", "far", "echo", '{"message":"over the wire"}');
    assert.equal(echo.code, 0, echo.stderr);
    assert.match(echo.stdout, /over the wire/);
  });
}

test("a turn executes what the model calls, and its client sees only the answer", async (t) => {
  const here = desk(
    `[mcp]\nenabled = true\n[mcp.servers.every]\nuse = "offer"\nallow = ["echo"]\n${node("everything", ["stdio"])}`,
  );
  t.after(here.done);
  const scenario = join(here.home, "scenario.toml");
  writeFileSync(
    scenario,
    `[[rule]]
     steps = [
       { exec = { arm = "mcp", args = { name = "mcp__every__echo", args = { message = "from inside" } } } },
       { text = "It said: {result}" },
     ]`,
  );
  const gateway = await here.serve("--sim", "--scenario", scenario);
  t.after(gateway.stop);
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: toml({ model: "auto", messages: [{ role: "user", content: "go" }] }),
  });
  const answer = await response.json();
  assert.equal(response.status, 200, toml(answer));
  const [choice] = answer.choices;
  assert.equal(choice.finish_reason, "stop");
  assert.match(choice.message.content, /It said: .*from inside/);
  assert.equal(choice.message.tool_calls, undefined);
  const health = await (await fetch(`${gateway.url}/health`)).json();
  assert.equal(health.mcp.enabled, true);
  assert.equal(health.mcp.servers, 1);
  const list = await (await fetch(`${gateway.url}/v1/tools`)).json();
  assert.equal(list.mcp.tools, health.mcp.tools);
  assert.ok(list.data.some((tool) => tool.id === "mcp__every__echo"));
});
