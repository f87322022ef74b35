// Responses through the official OpenAI SDK for Node.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import OpenAI from "openai";
import { zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";
import { up } from "../lib/ibeam.mjs";
import { NATIVE_STEPS, NUMBERS, TOOLS, chain, nothingUpstream } from "../lib/task.mjs";

const model = "gpt-5.4";
const tools = TOOLS.map((tool) => ({ type: "function", strict: true, ...tool }));
const Person = z.object({ name: z.string(), age: z.number() });
const clientOf = (server) => new OpenAI({ baseURL: server.baseURL, apiKey: "unused", maxRetries: 0 });

let server;
let client;
before(async () => {
  server = await up();
  client = clientOf(server);
});
after(async () => {
  await server?.stop();
});

const calls = (answer) => answer.output.filter((item) => item.type === "function_call");
const results = (task, answer) =>
  calls(answer).map((call) => ({
    type: "function_call_output",
    call_id: call.call_id,
    output: task.run(call.name, JSON.parse(call.arguments)),
  }));

test("a whole answer", async () => {
  const answer = await client.responses.create({ model, input: "Say hello", instructions: "Be brief." });
  assert.match(answer.id, /^resp_/);
  assert.equal(answer.object, "response");
  assert.equal(answer.status, "completed");
  assert.equal(answer.instructions, "Be brief.");
  assert.ok(answer.output_text.length > 0);
  assert.equal(answer.usage.total_tokens, answer.usage.input_tokens + answer.usage.output_tokens);
});

test("events are numbered, begin with created and end with completed", async () => {
  const stream = await client.responses.create({ model, input: "Say hello", stream: true });
  const events = [];
  for await (const event of stream) events.push(event);
  assert.deepEqual(events.map((event) => event.sequence_number), events.map((_, index) => index));
  assert.equal(events[0].type, "response.created");
  assert.equal(events.at(-1).type, "response.completed");
  const done = events.filter((event) => event.type === "response.output_item.done").map((event) => event.item);
  assert.deepEqual(done, events.at(-1).response.output);
});

test("the stream helper builds the whole answer", async () => {
  const input = "Say hello twice";
  const whole = await client.responses.create({ model, input });
  const streamed = await client.responses.stream({ model, input }).finalResponse();
  assert.equal(streamed.output_text, whole.output_text);
  assert.deepEqual(streamed.output.map((item) => item.type), whole.output.map((item) => item.type));
});

/** The whole history each time, over the stream helper. */
const byHistory = (to) => async (task) => {
  const input = [{ role: "user", content: task.text }];
  for (;;) {
    const answer = await to.responses.stream({ model, input, tools, store: false }).finalResponse();
    if (calls(answer).length === 0) return answer.output_text;
    input.push(...answer.output.map(({ parsed_arguments: _, ...item }) => item), ...results(task, answer));
  }
};

test("a tool chain over streams is one upstream run", () => chain(server, byHistory(client)));

test("a tool chain over streams with Cursor's own tools", async () => {
  const native = await up({}, ["--native-tools"]);
  try {
    await chain(native, byHistory(clientOf(native)), NATIVE_STEPS);
  } finally {
    await native.stop();
  }
});

test("a tool chain by previous_response_id sends only what is new", () =>
  chain(server, async (task) => {
    let answer = await client.responses.create({ model, input: task.text, tools });
    while (calls(answer).length > 0) {
      const input = results(task, answer);
      answer = await client.responses.create({ model, input, tools, previous_response_id: answer.id });
    }
    return answer.output_text;
  }));

test("a conversation by previous_response_id", async () => {
  const first = await client.responses.create({ model, input: "My number is 7315." });
  const second = await client.responses.create({ model, input: "What did I say?", previous_response_id: first.id });
  assert.match(second.output_text, /7315/);
  assert.equal((await client.responses.retrieve(second.id)).output_text, second.output_text);
  await client.responses.delete(second.id);
  await assert.rejects(client.responses.retrieve(second.id), OpenAI.NotFoundError);
});

test("a limit of tokens makes the answer incomplete", async () => {
  const body = { model, input: "count in words", max_output_tokens: 3 };
  const whole = await client.responses.create(body);
  const streamed = await client.responses.stream(body).finalResponse();
  for (const answer of [whole, streamed]) {
    assert.equal(answer.status, "incomplete");
    assert.equal(answer.incomplete_details.reason, "max_output_tokens");
    assert.ok(NUMBERS.startsWith(answer.output_text) && answer.output_text.length < NUMBERS.length);
  }
});

test("an answer by a schema", async () => {
  const body = { model, input: "describe a person", text: { format: zodTextFormat(Person, "person") } };
  const whole = await client.responses.parse(body);
  const streamed = await client.responses.stream(body).finalResponse();
  for (const answer of [whole, streamed]) assert.deepEqual(answer.output_parsed, { name: "Ada", age: 36 });
});

test("what is wrong with a request is named, and not sent", () =>
  nothingUpstream(server, async () => {
    await assert.rejects(client.responses.create({ model: "no-such-model-7", input: "hi" }), {
      status: 400,
      code: "model_not_found",
    });
    await assert.rejects(client.responses.create({ model, input: 7 }), { status: 400, param: "input" });
  }));

test("a rate limit names its wait", () =>
  assert.rejects(client.responses.create({ model, input: "too many of us" }), (error) => {
    assert.ok(error instanceof OpenAI.RateLimitError, String(error));
    assert.equal(error.headers.get("retry-after"), "77");
    return true;
  }));

test("a failure amid a stream is told", async () => {
  const stream = await client.responses.create({ model, input: "break off", stream: true });
  const events = [];
  for await (const event of stream) events.push(event);
  assert.equal(events.at(-1).type, "response.failed");
  assert.equal(events.at(-1).response.error.code, "server_error");
});
