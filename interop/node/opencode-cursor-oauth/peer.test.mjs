// A public, live-proven client of the Agent API against our simulator: if the
// simulator and our own driver misread the protocol in the same way, this shows it.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import OpenAI from "openai";
import { sim, simToken } from "../lib/ibeam.mjs";
import { startPeer } from "../lib/peer.mjs";

const model = "auto";
// This proxy writes errors as content.
const ERROR = /\[Error|Connect error|not found/i;
const tools = [
  {
    type: "function",
    function: {
      name: "get_weather",
      description: "The weather in a city",
      parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    },
  },
];

let backend;
let peer;
let client;

before(async () => {
  // It was written for the service of the summer.
  backend = await sim("--switch", "preset=summer");
  peer = await startPeer(backend.url, simToken());
  client = new OpenAI({ baseURL: peer.baseURL, apiKey: "unused", maxRetries: 0, timeout: 30_000 });
});
after(async () => {
  await peer?.stop();
  await backend?.stop();
});

async function collect(body, from = client) {
  const stream = await from.chat.completions.create({ model, stream: true, ...body });
  let text = "";
  let finish = null;
  const calls = [];
  for await (const chunk of stream) {
    const choice = chunk.choices[0];
    if (!choice) continue;
    text += choice.delta.content ?? "";
    for (const part of choice.delta.tool_calls ?? []) {
      calls[part.index] ??= { id: "", type: "function", function: { name: "", arguments: "" } };
      const call = calls[part.index];
      call.id ||= part.id ?? "";
      call.function.name += part.function?.name ?? "";
      call.function.arguments += part.function?.arguments ?? "";
    }
    finish ??= choice.finish_reason;
  }
  return { text, finish, calls };
}

test("a streamed chat", async () => {
  const answer = await collect({ messages: [{ role: "user", content: "Say hello" }] });
  assert.equal(answer.finish, "stop");
  assert.ok(answer.text.trim().length > 0);
  assert.doesNotMatch(answer.text, ERROR);
});

test("a whole answer", async () => {
  const answer = await client.chat.completions.create({
    model,
    stream: false,
    messages: [{ role: "user", content: "Say hello" }],
  });
  assert.ok(answer.choices[0].message.content.length > 0);
});

test("a second turn of the same conversation, whose history it sends as blobs", async () => {
  const answer = await collect({
    messages: [
      { role: "system", content: "Be brief." },
      { role: "user", content: "Say hello" },
      { role: "assistant", content: "Hello." },
      { role: "user", content: "Say hello again" },
    ],
  });
  assert.equal(answer.finish, "stop");
  assert.ok(answer.text.trim().length > 0);
  assert.doesNotMatch(answer.text, ERROR);
});

test("a tool call and its result on the same upstream stream", async () => {
  const secret = `sunny-${Math.random().toString(36).slice(2, 10)}`;
  const question = { role: "user", content: 'Use the tool get_weather {"city":"Oslo"}' };
  const first = await collect({ messages: [question], tools });
  assert.equal(first.finish, "tool_calls", first.text);
  assert.equal(first.calls.length, 1);
  const [call] = first.calls;
  assert.equal(call.function.name, "get_weather");
  assert.equal(JSON.parse(call.function.arguments).city, "Oslo");

  const second = await collect({
    messages: [
      question,
      { role: "assistant", content: null, tool_calls: first.calls },
      { role: "tool", tool_call_id: call.id, content: secret },
    ],
    tools,
  });
  assert.equal(second.finish, "stop");
  assert.match(second.text, new RegExp(secret));
});

/** The same proxy in front of the service of autumn, with these switches. */
async function inAutumn(switches, work) {
  const backend = await sim(...switches.flatMap((value) => ["--switch", value]));
  const peer = await startPeer(backend.url, simToken());
  try {
    const options = { apiKey: "unused", maxRetries: 0, timeout: 5_000 };
    await work(new OpenAI({ baseURL: peer.baseURL, ...options }), backend);
  } finally {
    await peer.stop();
    await backend.stop();
  }
}

test("autumn: its model does not follow a system prompt behind a history", async () => {
  await inAutumn([], async (client, backend) => {
    const messages = [
      { role: "system", content: "Be brief." },
      { role: "user", content: "My word is heliotrope." },
      { role: "assistant", content: "Noted." },
      { role: "user", content: "Say hello" },
    ];
    await collect({ messages }, client);
    const prompts = await (await fetch(`${backend.url}/sim/prompts`)).json();
    const known = (prompts.prompts ?? prompts).at(-1);
    assert.deepEqual(known.instructions, []);
    assert.match(JSON.stringify(known.entries), /heliotrope/);
  });
});

test("autumn: its tools wait for the state of MCP servers, which it does not answer", async () => {
  const messages = [{ role: "user", content: 'Use the tool get_weather {"city":"Oslo"}' }];
  await inAutumn([], async (client) => {
    await assert.rejects(collect({ messages, tools }, client), /timed out/);
  });
  await inAutumn(["tools.mcp_state=off"], async (client) => {
    const answer = await collect({ messages, tools }, client);
    assert.equal(answer.finish, "tool_calls", answer.text);
  });
});
