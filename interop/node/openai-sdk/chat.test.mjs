// Tools, limits, structure and failures of chat completions, through the SDK's helpers.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import OpenAI from "openai";
import { zodResponseFormat } from "openai/helpers/zod";
import { z } from "zod";
import { up } from "../lib/ibeam.mjs";
import { NATIVE_STEPS, NUMBERS, TOOLS, chain, nothingUpstream } from "../lib/task.mjs";

const model = "gpt-4o";
const ask = (content) => [{ role: "user", content }];
const Person = z.object({ name: z.string(), age: z.number() });
const clientOf = (server, options) =>
  new OpenAI({ baseURL: server.baseURL, apiKey: "unused", maxRetries: 0, ...options });

let server;
let client;
before(async () => {
  server = await up();
  client = clientOf(server);
});
after(async () => {
  await server?.stop();
});

/** The tools as the runner wants them: it calls them itself. */
const runnable = (task) =>
  TOOLS.map((tool) => ({
    type: "function",
    function: { ...tool, strict: true, parse: JSON.parse, function: (args) => task.run(tool.name, args) },
  }));

for (const stream of [false, true]) {
  const kind = stream ? "streams" : "whole answers";
  const run = (to) => (task) =>
    to.chat.completions.runTools({ model, messages: ask(task.text), tools: runnable(task), stream }).finalContent();

  test(`runTools over ${kind} is one upstream run`, () => chain(server, run(client)));

  test(`runTools over ${kind} with Cursor's own tools`, async () => {
    const native = await up({}, ["--native-tools"]);
    try {
      await chain(native, run(clientOf(native)), NATIVE_STEPS);
    } finally {
      await native.stop();
    }
  });

  test(`a plan that is used up is not tried again (${kind})`, async () => {
    const eager = clientOf(server, { maxRetries: 2 });
    const opened = await server.opened();
    await assert.rejects(
      eager.chat.completions.create({ model, messages: ask("plan used up"), stream }),
      (error) => error instanceof OpenAI.RateLimitError && error.code === "insufficient_quota",
    );
    assert.equal((await server.opened()) - opened, 1);
  });

  test(`a rate limit names its wait (${kind})`, () =>
    assert.rejects(client.chat.completions.create({ model, messages: ask("too many of us"), stream }), (error) => {
      assert.ok(error instanceof OpenAI.RateLimitError, String(error));
      assert.equal(error.headers.get("retry-after"), "77");
      return true;
    }));
}

test("stop sequences, across the borders of deltas", async () => {
  const body = { model, messages: ask("count in words"), stop: ["never said", " five six"] };
  const whole = await client.chat.completions.create(body);
  const streamed = await client.chat.completions.stream(body).finalChatCompletion();
  for (const { choices } of [whole, streamed]) {
    assert.equal(choices[0].message.content, "one two three four");
    assert.equal(choices[0].finish_reason, "stop");
  }
});

test("a limit of tokens", async () => {
  for (const limit of [{ max_tokens: 3 }, { max_completion_tokens: 3 }]) {
    const body = { model, messages: ask("count in words"), ...limit };
    const whole = await client.chat.completions.create(body);
    const streamed = await client.chat.completions.stream(body).finalChatCompletion();
    for (const { choices } of [whole, streamed]) {
      assert.equal(choices[0].finish_reason, "length");
      assert.ok(NUMBERS.startsWith(choices[0].message.content));
      assert.ok(choices[0].message.content.length < NUMBERS.length);
    }
  }
});

test("an answer by a schema", async () => {
  const response_format = zodResponseFormat(Person, "person");
  const body = { model, messages: ask("describe a person"), response_format };
  const whole = await client.chat.completions.parse(body);
  const streamed = await client.chat.completions.stream(body).finalChatCompletion();
  for (const { choices } of [whole, streamed]) {
    assert.deepEqual(choices[0].message.parsed, { name: "Ada", age: 36 });
  }
});

test("an answer that does not fit its schema is an error", async () => {
  const response_format = zodResponseFormat(Person, "person");
  const body = { model, messages: ask("describe nobody"), response_format };
  await assert.rejects(client.chat.completions.parse(body), (error) => {
    assert.equal(error.status, 422, String(error));
    assert.match(error.message, /name/);
    return true;
  });
  await assert.rejects(client.chat.completions.stream(body).finalChatCompletion(), OpenAI.APIError);
});

test("a failure amid a stream is an exception", async () => {
  const stream = await client.chat.completions.create({ model, messages: ask("break off"), stream: true });
  let text = "";
  const read = async () => {
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
  };
  await assert.rejects(read(), (error) => error instanceof OpenAI.APIError && error.type === "server_error");
  assert.ok("This sentence has no".startsWith(text) && text.length > 0, text);
  await assert.rejects(client.chat.completions.create({ model, messages: ask("break off") }), { status: 502 });
});

test("what cannot be done is refused before anything is sent", () =>
  nothingUpstream(server, async () => {
    for (const [name, value] of [["n", 2], ["logprobs", true]]) {
      await assert.rejects(client.chat.completions.create({ model, messages: ask("hi"), [name]: value }), {
        status: 400,
        param: name,
      });
    }
  }));
