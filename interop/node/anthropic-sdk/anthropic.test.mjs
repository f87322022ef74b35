// The official Anthropic SDK for Node against `ibeam up --sim`.

import Anthropic from "@anthropic-ai/sdk";
import { betaTool } from "@anthropic-ai/sdk/helpers/beta/json-schema";
import { zodOutputFormat } from "@anthropic-ai/sdk/helpers/zod";
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { z } from "zod";
import { up } from "../lib/ibeam.mjs";
import { NATIVE_STEPS, NUMBERS, TOOLS, chain, nothingUpstream } from "../lib/task.mjs";

const model = "claude-sonnet-4-6";
const max_tokens = 1000;
const ask = (content) => [{ role: "user", content }];
const tools = TOOLS.map(({ parameters, ...tool }) => ({ ...tool, input_schema: parameters }));
const Person = z.object({ name: z.string(), age: z.number() });
const clientOf = (server, options) =>
  new Anthropic({ baseURL: server.url, apiKey: "unused", maxRetries: 0, ...options });

let server;
let client;
before(async () => {
  server = await up();
  client = clientOf(server);
});
after(async () => {
  await server?.stop();
});

const textOf = (message) =>
  message.content.filter((block) => block.type === "text").map((block) => block.text).join("");
const create = (content, more) => client.messages.create({ model, max_tokens, messages: ask(content), ...more });
const streamed = (content, more) =>
  client.messages.stream({ model, max_tokens, messages: ask(content), ...more }).finalMessage();
/** Whole and streamed, which must be the same. */
const both = async (content, more) => [await create(content, more), await streamed(content, more)];

test("models are listed and each can be retrieved", async () => {
  const ids = [];
  for await (const item of client.models.list()) {
    assert.equal(item.type, "model");
    assert.ok(item.display_name);
    ids.push(item.id);
  }
  assert.ok(ids.length > 0, "no model");
  assert.equal((await client.models.retrieve(ids[0])).id, ids[0]);
});

test("whole and streamed answers say the same", async () => {
  const [whole, stream] = await both("Say hello", { system: "Be brief." });
  for (const answer of [whole, stream]) {
    assert.match(answer.id, /^msg_/);
    assert.equal(answer.role, "assistant");
    assert.equal(answer.stop_reason, "end_turn");
    assert.ok(answer.usage.output_tokens > 0);
  }
  assert.equal(textOf(stream), textOf(whole));
});

test("thinking comes with a signature and may be given back", async () => {
  const thinking = { type: "enabled", budget_tokens: 2000 };
  for (const first of await both("My number is 7315.", { thinking, max_tokens: 4000 })) {
    const thoughts = first.content.filter((block) => block.type === "thinking");
    assert.equal(thoughts.length, 1);
    assert.ok(thoughts[0].thinking && thoughts[0].signature);
    const history = [...ask("My number is 7315."), { role: "assistant", content: first.content }];
    const messages = [...history, ...ask("What did I say?")];
    assert.match(textOf(await create(null, { thinking, max_tokens: 4000, messages })), /7315/);
  }
});

test("tokens are counted", async () => {
  const short = await client.messages.countTokens({ model, messages: ask("Say hello") });
  const long = await client.messages.countTokens({ model, messages: ask("Say hello ".repeat(100)) });
  assert.ok(short.input_tokens > 0);
  assert.ok(long.input_tokens > short.input_tokens + 100);
});

const byHand = (ask_model) => async (task) => {
  const messages = ask(task.text);
  for (;;) {
    const answer = await ask_model({ model, max_tokens, messages, tools });
    const uses = answer.content.filter((block) => block.type === "tool_use");
    if (uses.length === 0) return textOf(answer);
    assert.equal(answer.stop_reason, "tool_use");
    const results = uses.map(({ id, name, input }) => ({
      type: "tool_result",
      tool_use_id: id,
      content: task.run(name, input),
    }));
    messages.push({ role: "assistant", content: answer.content }, { role: "user", content: results });
  }
};

test("a tool chain of whole answers is one upstream run", () =>
  chain(server, byHand((body) => client.messages.create(body))));

test("a tool chain of streams is one upstream run", () =>
  chain(server, byHand((body) => client.messages.stream(body).finalMessage())));

/** By the SDK's runner, which runs the tools itself and asks for a thread unless told not to. */
const byRunner = (to, more) => async (task) => {
  const own = TOOLS.map(({ parameters, ...tool }) =>
    betaTool({ ...tool, inputSchema: parameters, run: (input) => task.run(tool.name, input) }),
  );
  const body = { model, max_tokens, messages: ask(task.text), tools: own, ...more };
  return textOf(await to.beta.messages.toolRunner(body).runUntilDone());
};

// client rule 22: the runner asks for a thread, is refused, and sends the whole history.
test("the tool runner is one upstream run", () => chain(server, byRunner(client)));
test("the tool runner over streams is one upstream run", () => chain(server, byRunner(client, { stream: true })));
test("the tool runner with Cursor's own tools", async () => {
  const native = await up({}, ["--native-tools"]);
  try {
    await chain(native, byRunner(clientOf(native)), NATIVE_STEPS);
  } finally {
    await native.stop();
  }
});

test("stop sequences, across the borders of deltas", async () => {
  for (const answer of await both("count in words", { stop_sequences: ["never said", " five six"] })) {
    assert.equal(textOf(answer), "one two three four");
    assert.equal(answer.stop_reason, "stop_sequence");
    assert.equal(answer.stop_sequence, " five six");
  }
});

test("a limit of tokens", async () => {
  for (const answer of await both("count in words", { max_tokens: 3 })) {
    assert.equal(answer.stop_reason, "max_tokens");
    assert.ok(NUMBERS.startsWith(textOf(answer)) && textOf(answer).length < NUMBERS.length);
  }
});

test("an answer by a schema", async () => {
  const body = {
    model,
    max_tokens,
    messages: ask("describe a person"),
    output_config: { format: zodOutputFormat(Person) },
  };
  const whole = await client.messages.parse(body);
  const stream = await client.messages.stream(body).finalMessage();
  for (const answer of [whole, stream]) assert.deepEqual(answer.parsed_output, { name: "Ada", age: 36 });
});

test("what is wrong with a request is named, and not sent", () =>
  nothingUpstream(server, async () => {
    await assert.rejects(create("hi", { model: "no-such-model-7" }), (error) => {
      assert.ok(error instanceof Anthropic.NotFoundError, String(error));
      assert.equal(error.type, "not_found_error");
      return true;
    });
    await assert.rejects(create("hi", { max_tokens: "many" }), (error) => {
      assert.ok(error instanceof Anthropic.BadRequestError, String(error));
      assert.match(error.message, /max_tokens/);
      return true;
    });
  }));

test("a rate limit names its wait", async () => {
  for (const stream of [false, true]) {
    await assert.rejects(create("too many of us", { stream }), (error) => {
      assert.ok(error instanceof Anthropic.RateLimitError, String(error));
      assert.equal(error.headers.get("retry-after"), "77");
      return true;
    });
  }
});

test("a failure amid a stream is an exception", async () => {
  const stream = client.messages.stream({ model, max_tokens, messages: ask("break off") });
  let text = "";
  stream.on("text", (delta) => {
    text += delta;
  });
  await assert.rejects(stream.finalMessage(), (error) => error instanceof Anthropic.APIError);
  assert.ok("This sentence has no".startsWith(text) && text.length > 0, text);
  await assert.rejects(create("break off"), { status: 502 });
});
