// The Vercel AI SDK against `ibeam up --sim`, with each of the providers that speak to us.

import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, Output, generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { z } from "zod";
import { up } from "../lib/ibeam.mjs";
import { NATIVE_STEPS, NUMBERS, TOOLS, chain } from "../lib/task.mjs";

const Person = z.object({ name: z.string(), age: z.number() });

/** A model of each API, at a server. */
const MODELS = {
  "openai, responses": ({ baseURL }) => createOpenAI({ baseURL, apiKey: "unused" }).responses("gpt-5.4"),
  "openai, chat": ({ baseURL }) => createOpenAI({ baseURL, apiKey: "unused" }).chat("gpt-5.4"),
  "openai-compatible": ({ baseURL }) =>
    createOpenAICompatible({
      name: "ibeam",
      baseURL,
      apiKey: "unused",
      includeUsage: true,
      supportsStructuredOutputs: true,
    })("gpt-5.4"),
  anthropic: ({ baseURL }) => createAnthropic({ baseURL, apiKey: "unused" })("claude-sonnet-4-6"),
};
const NO_STOPS = "openai, responses";

let server;
let native;
before(async () => {
  [server, native] = await Promise.all([up(), up({}, ["--native-tools"])]);
});
after(async () => {
  await Promise.all([server?.stop(), native?.stop()]);
});

/** Warnings of the SDK are findings: it met a field or a setting that does not fit. */
const clean = (warnings) => assert.deepEqual(warnings ?? [], []);
const quiet = { maxRetries: 0, onError: () => {} };

const toolsOf = (task) =>
  Object.fromEntries(
    TOOLS.map(({ name, description, parameters }) => [
      name,
      tool({ description, inputSchema: jsonSchema(parameters), execute: (input) => task.run(name, input) }),
    ]),
  );

for (const [name, make] of Object.entries(MODELS)) {
  const whole = async (at, more) => {
    const result = await generateText({ model: make(at), maxRetries: 0, ...more });
    clean(result.warnings);
    return result;
  };
  const streamed = async (at, more) => {
    const errors = [];
    const result = streamText({ model: make(at), maxRetries: 0, onError: ({ error }) => errors.push(error), ...more });
    await result.consumeStream();
    if (errors.length > 0) throw errors[0];
    clean(await result.warnings);
    return {
      text: await result.text,
      finishReason: await result.finishReason,
      usage: await result.totalUsage,
      steps: await result.steps,
    };
  };

  test(`${name}: whole and streamed answers say the same`, async () => {
    const prompt = "count in words";
    for (const answer of [await whole(server, { prompt }), await streamed(server, { prompt })]) {
      assert.equal(answer.text, NUMBERS);
      assert.equal(answer.finishReason, "stop");
      assert.ok(answer.usage.outputTokens > 0, JSON.stringify(answer.usage));
      assert.ok(answer.usage.inputTokens > 0, JSON.stringify(answer.usage));
    }
  });

  for (const [kind, ask] of [["whole answers", whole], ["streams", streamed]]) {
    const work = (at) => async (task) => {
      const result = await ask(at, { prompt: task.text, tools: toolsOf(task), stopWhen: stepCountIs(10) });
      assert.equal(result.finishReason, "stop");
      return result.text;
    };
    test(`${name}: a tool chain of ${kind} is one upstream run`, () => chain(server, work(server)));
    test(`${name}: a tool chain of ${kind} with Cursor's own tools`, () =>
      chain(native, work(native), NATIVE_STEPS));
  }

  test(`${name}: an answer by a schema`, async () => {
    const body = { prompt: "describe a person", output: Output.object({ schema: Person }) };
    assert.deepEqual((await whole(server, body)).output, { name: "Ada", age: 36 });
    const stream = streamText({ model: make(server), ...quiet, ...body });
    assert.deepEqual(await stream.output, { name: "Ada", age: 36 });
  });

  test(`${name}: a limit of tokens`, async () => {
    const body = { prompt: "count in words", maxOutputTokens: 3 };
    for (const answer of [await whole(server, body), await streamed(server, body)]) {
      assert.equal(answer.finishReason, "length");
      assert.ok(NUMBERS.startsWith(answer.text) && answer.text.length < NUMBERS.length, answer.text);
    }
  });

  // The Responses API has no stop sequences.
  if (name !== NO_STOPS) {
    test(`${name}: stop sequences`, async () => {
      const body = { prompt: "count in words", stopSequences: [" five six"] };
      for (const answer of [await whole(server, body), await streamed(server, body)]) {
        assert.equal(answer.text, "one two three four");
        assert.equal(answer.finishReason, "stop");
      }
    });
  }

  test(`${name}: a rate limit is an error that may be tried again`, async () => {
    for (const ask of [whole, streamed]) {
      await assert.rejects(ask(server, { prompt: "too many of us" }), (error) => {
        assert.ok(APICallError.isInstance(error), String(error));
        assert.equal(error.statusCode, 429);
        assert.equal(error.isRetryable, true);
        assert.equal(error.responseHeaders["retry-after"], "77");
        return true;
      });
    }
  });

  test(`${name}: a failure amid a stream is an error`, async () => {
    const parts = [];
    const stream = streamText({ model: make(server), prompt: "break off", ...quiet });
    for await (const part of stream.fullStream) parts.push(part);
    const text = parts.filter((part) => part.type === "text-delta").map((part) => part.text).join("");
    assert.ok("This sentence has no".startsWith(text) && text.length > 0, text);
    assert.equal(parts.filter((part) => part.type === "error").length, 1, JSON.stringify(parts));
  });
}
