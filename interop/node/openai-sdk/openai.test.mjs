// The official OpenAI SDK for Node against `ibeam up --sim`.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import OpenAI from "openai";
import { up } from "../lib/ibeam.mjs";

// One red pixel.
const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

let server;
let client;
const model = "auto";
const ask = (content) => [{ role: "user", content }];

before(async () => {
  server = await up();
  client = new OpenAI({ baseURL: server.baseURL, apiKey: "unused", maxRetries: 0 });
});
after(async () => {
  await server?.stop();
});

test("models are listed and each can be retrieved", async () => {
  const list = await client.models.list();
  const ids = [];
  for await (const item of list) {
    assert.equal(item.object, "model");
    assert.ok(item.owned_by);
    ids.push(item.id);
  }
  assert.ok(ids.length > 0, "no model");
  const one = await client.models.retrieve(ids[0]);
  assert.equal(one.id, ids[0]);
});

test("a whole answer", async () => {
  const answer = await client.chat.completions.create({ model, messages: ask("Say hello") });
  assert.match(answer.id, /^chatcmpl-/);
  assert.equal(answer.object, "chat.completion");
  const [choice] = answer.choices;
  assert.equal(choice.finish_reason, "stop");
  assert.equal(choice.message.role, "assistant");
  assert.equal(choice.message.refusal, null);
  assert.ok(choice.message.content.length > 0);
  assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
});

test("a streamed answer: role first, one finish reason, no usage unless asked", async () => {
  const stream = await client.chat.completions.create({ model, messages: ask("Say hello"), stream: true });
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  assert.equal(chunks[0].choices[0].delta.role, "assistant");
  assert.equal(new Set(chunks.map((chunk) => chunk.id)).size, 1);
  for (const chunk of chunks) {
    assert.equal(chunk.object, "chat.completion.chunk");
    assert.equal(chunk.choices.length, 1, "a chunk without choice although usage was not asked for");
    assert.equal(chunk.choices[0].index, 0);
  }
  const finished = chunks.filter((chunk) => chunk.choices[0].finish_reason);
  assert.deepEqual(finished.map((chunk) => chunk.choices[0].finish_reason), ["stop"]);
  const text = chunks.map((chunk) => chunk.choices[0].delta.content ?? "").join("");
  assert.ok(text.length > 0);
});

test("streamed and whole answers say the same", async () => {
  const messages = ask("Say hello twice");
  const whole = await client.chat.completions.create({ model, messages });
  const stream = await client.chat.completions.create({ model, messages, stream: true });
  let text = "";
  for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
  assert.equal(text, whole.choices[0].message.content);
});

test("usage comes last when it is asked for", async () => {
  const stream = await client.chat.completions.create({
    model,
    messages: ask("Say hello"),
    stream: true,
    stream_options: { include_usage: true },
  });
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  const last = chunks.at(-1);
  assert.deepEqual(last.choices, []);
  assert.ok(last.usage.completion_tokens > 0);
  assert.equal(last.usage.total_tokens, last.usage.prompt_tokens + last.usage.completion_tokens);
});

test("the stream helper builds the whole answer", async () => {
  const runner = client.chat.completions.stream({ model, messages: ask("Say hello") });
  const answer = await runner.finalChatCompletion();
  assert.equal(answer.choices[0].finish_reason, "stop");
  assert.ok(answer.choices[0].message.content.length > 0);
});

test("a conversation with a system message and history", async () => {
  const answer = await client.chat.completions.create({
    model,
    messages: [
      { role: "system", content: "Be brief." },
      { role: "user", content: "My number is 7315." },
      { role: "assistant", content: "Noted." },
      { role: "user", content: [{ type: "text", text: "Say hello" }] },
    ],
  });
  assert.equal(answer.choices[0].finish_reason, "stop");
});

test("an image in a user message", async () => {
  const answer = await client.chat.completions.create({
    model,
    messages: ask([
      { type: "text", text: "What is in this image?" },
      { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } },
    ]),
  });
  assert.equal(answer.choices[0].finish_reason, "stop");
});

test("an unknown model is refused before anything is sent", async () => {
  await assert.rejects(
    client.chat.completions.create({ model: "no-such-model-7", messages: ask("hi") }),
    (error) => {
      assert.ok(error instanceof OpenAI.BadRequestError, String(error));
      assert.equal(error.status, 400);
      assert.equal(error.code, "model_not_found");
      assert.equal(error.type, "invalid_request_error");
      return true;
    },
  );
});

test("the same refusal for a stream is an HTTP status, not content", async () => {
  await assert.rejects(
    client.chat.completions.create({ model: "no-such-model-7", messages: ask("hi"), stream: true }),
    (error) => error.status === 400 && error.code === "model_not_found",
  );
});

test("wrong requests name the field", async () => {
  const cases = [
    [{ model }, "messages"],
    [{ model, messages: [] }, "messages"],
    [{ model, messages: [{ role: "wizard", content: "hi" }] }, /role/],
    [{ model, messages: ask("hi"), n: 2 }, "n"],
    [{ model, messages: ask("hi"), stream: "yes" }, "stream"],
  ];
  for (const [body, param] of cases) {
    await assert.rejects(client.chat.completions.create(body), (error) => {
      assert.equal(error.status, 400, JSON.stringify(body));
      assert.equal(error.type, "invalid_request_error");
      if (param instanceof RegExp) assert.match(error.param ?? "", param);
      else assert.equal(error.param, param);
      return true;
    });
  }
});

test("response headers: a request id, and the parameters that had no effect", async () => {
  const { data, response } = await client.chat.completions
    .create({ model, messages: ask("Say hello"), temperature: 0.1, seed: 4 })
    .withResponse();
  assert.ok(data.choices.length === 1);
  assert.ok(response.headers.get("x-request-id"));
  const named = [...response.headers.entries()].filter(([, value]) => value.includes("temperature"));
  assert.equal(named.length, 1, "no header names the ignored parameters");
  assert.match(named[0][1], /seed/);
});

test("an aborted stream ends at once and the server stays well", async () => {
  const controller = new AbortController();
  const stream = await client.chat.completions.create(
    { model, messages: ask("Count from 1 to 200"), stream: true },
    { signal: controller.signal },
  );
  let seen = 0;
  const started = Date.now();
  try {
    for await (const _ of stream) {
      seen += 1;
      if (seen === 1) controller.abort();
    }
  } catch (error) {
    // Depending on where the abort falls, the SDK ends the loop or throws this.
    assert.ok(error instanceof OpenAI.APIUserAbortError, String(error));
  }
  assert.ok(seen >= 1);
  assert.ok(Date.now() - started < 5_000, "the abort took too long");
  const answer = await client.chat.completions.create({ model, messages: ask("Say hello") });
  assert.equal(answer.choices[0].finish_reason, "stop");
});

test("many streams at once", async () => {
  const texts = await Promise.all(
    Array.from({ length: 20 }, async () => {
      const stream = await client.chat.completions.create({ model, messages: ask("Say hello"), stream: true });
      let text = "";
      for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? "";
      return text;
    }),
  );
  assert.equal(new Set(texts).size, 1);
});

test("a key that is asked for and wrong is 401", async () => {
  const guarded = await up({ IBEAM_API_KEY: "sesame" });
  try {
    const wrong = new OpenAI({ baseURL: guarded.baseURL, apiKey: "wrong", maxRetries: 0 });
    await assert.rejects(wrong.chat.completions.create({ model, messages: ask("hi") }), (error) => {
      assert.ok(error instanceof OpenAI.AuthenticationError, String(error));
      assert.equal(error.code, "invalid_api_key");
      assert.equal(error.type, "authentication_error");
      return true;
    });
    const right = new OpenAI({ baseURL: guarded.baseURL, apiKey: "sesame", maxRetries: 0 });
    const answer = await right.chat.completions.create({ model, messages: ask("Say hello") });
    assert.equal(answer.choices[0].finish_reason, "stop");
  } finally {
    await guarded.stop();
  }
});
