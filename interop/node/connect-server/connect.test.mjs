// ibeam against an independent backend made with `@connectrpc/connect-node`.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import OpenAI from "openai";
import { serve, token } from "../lib/ibeam.mjs";
import { startServer } from "./server.mjs";

const PNG =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

let backend;
let gateway;
let client;

before(async () => {
  const secret = token();
  backend = await startServer(secret);
  gateway = await serve(backend.url, secret);
  client = new OpenAI({ baseURL: gateway.baseURL, apiKey: "unused", maxRetries: 0, timeout: 60_000 });
});
after(async () => {
  await gateway?.stop();
  backend?.stop();
});

const ask = (name) => [{ role: "user", content: `scenario: ${name}` }];

/** The newest report of a scenario, which must be free of complaints. */
function report(name) {
  const found = backend.reports.filter((one) => one.scenario === name).at(-1);
  assert.ok(found, `the backend saw no run of ${name}`);
  assert.deepEqual(found.errors, []);
  return found;
}

async function stream(name, messages = ask(name)) {
  const chunks = [];
  const answer = await client.chat.completions.create({ model: "auto", messages, stream: true });
  for await (const chunk of answer) chunks.push(chunk);
  const deltas = chunks.map((chunk) => chunk.choices[0]?.delta ?? {});
  return {
    text: deltas.map((delta) => delta.content ?? "").join(""),
    reasoning: deltas.map((delta) => delta.reasoning_content ?? "").join(""),
    finish: chunks.map((chunk) => chunk.choices[0]?.finish_reason).filter(Boolean),
  };
}

test("the model list comes from the backend", async () => {
  const ids = [];
  for await (const model of client.models.list()) ids.push(model.id);
  for (const id of ["composer-1", "gpt-5.2", "claude-4.5-sonnet"]) assert.ok(ids.includes(id), `${id} in ${ids}`);
  assert.ok(backend.unary.length > 0);
});

test("plain text, blobs, checkpoint and usage", async () => {
  const answer = await client.chat.completions.create({ model: "auto", messages: ask("plain") });
  assert.equal(answer.choices[0].message.content, "Hello from connect-node.");
  assert.equal(answer.choices[0].finish_reason, "stop");
  assert.equal(answer.usage.prompt_tokens, 11);
  assert.equal(answer.usage.completion_tokens, 7);
  const seen = report("plain");
  assert.ok(seen.facts.finished);
  assert.ok(seen.facts.gzip, "the client must let the backend compress");
});

test("the same as a stream", async () => {
  const answer = await stream("plain");
  assert.equal(answer.text, "Hello from connect-node.");
  assert.deepEqual(answer.finish, ["stop"]);
  report("plain");
});

test("a named model is sent by its id", async () => {
  await client.chat.completions.create({ model: "gpt-5.2", messages: ask("plain") });
  report("plain");
});

test("thinking goes to reasoning", async () => {
  const answer = await stream("thinking");
  assert.equal(answer.reasoning, "Let me see.");
  assert.equal(answer.text, "Seen.");
  report("thinking");
});

test("the request context, asked for in the middle", async () => {
  const answer = await stream("context");
  assert.equal(answer.text, "One. Two.");
  report("context");
});

test("history and system prompt", async () => {
  const answer = await stream("history", [
    { role: "system", content: "You are a lighthouse keeper." },
    { role: "user", content: "First question 4711" },
    { role: "assistant", content: "First answer 4712" },
    { role: "user", content: "scenario: history" },
  ]);
  assert.match(answer.text, /messages/);
  const seen = report("history");
  const prompt = JSON.stringify(seen.facts.prompt);
  const places = ["First question 4711", "First answer 4712"].map((text) => prompt.indexOf(text));
  assert.ok(places[0] >= 0 && places[1] > places[0], `history in order: ${prompt}`);
  assert.ok(prompt.indexOf("lighthouse keeper") >= 0, `the system prompt is an entry beside a history: ${prompt}`);
});

test("a system prompt without a history is a rule of the request context", async () => {
  await stream("plain", [{ role: "system", content: "You are a lighthouse keeper." }, ...ask("plain")]);
  const context = report("plain").facts.context;
  assert.match(context.cloudRule ?? "", /lighthouse keeper/);
  assert.ok(context.rules.some((rule) => rule.content.includes("lighthouse keeper") && rule.type.type.case === "global"));
});

test("equal histories give equal blobs, so that caches stay warm; others do not", async () => {
  const chat = (word) => [
    { role: "user", content: `First ${word}` },
    { role: "assistant", content: "Yes." },
    { role: "user", content: "scenario: history" },
  ];
  const seen = [];
  for (const word of ["a", "a", "b"]) {
    await stream("history", chat(word));
    seen.push(report("history").refs.join());
  }
  assert.ok(seen[0].length > 0);
  assert.equal(seen[0], seen[1]);
  assert.notEqual(seen[0], seen[2]);
});

test("gzip frames", async () => {
  const answer = await stream("gzip");
  assert.equal(answer.text.length, [...Array(20).keys()].reduce((sum, n) => sum + `${n}: `.length + 4200, 0));
  report("gzip");
});

test("interaction queries are answered; web search is refused unless the user allows it", async () => {
  const answer = await stream("query");
  assert.equal(answer.text, "Search was rejected.");
  const seen = report("query");
  assert.ok(seen.facts.search.value.result.value.reason, "the refusal says why");
});

test("an unknown exec arm is thrown back", async () => {
  const answer = await stream("unknown");
  assert.equal(answer.text, "Thrown.");
  report("unknown");
});

test("a built-in tool is refused", async () => {
  const answer = await stream("refuse");
  assert.equal(answer.text, "Refused.");
  report("refuse");
});

test("an image of the user", async () => {
  const answer = await stream("image", [
    {
      role: "user",
      content: [
        { type: "text", text: "scenario: image" },
        { type: "image_url", image_url: { url: `data:image/png;base64,${PNG}` } },
      ],
    },
  ]);
  assert.equal(answer.text, `1 image, image/png, ${Buffer.from(PNG, "base64").length} bytes.`);
  report("image");
});

test("an error end frame before the first byte is a status", async () => {
  for (const streamed of [false, true]) {
    await assert.rejects(
      client.chat.completions.create({ model: "auto", messages: ask("error"), stream: streamed }),
      (error) => {
        assert.equal(error.status, 429, String(error));
        assert.equal(error.type, "rate_limit_error");
        assert.ok(error.headers.get("retry-after"));
        return true;
      },
    );
  }
  report("error");
});

test("an error after the first byte is an event, not content and not a stop", async () => {
  let text = "";
  let finish = null;
  await assert.rejects(async () => {
    const answer = await client.chat.completions.create({ model: "auto", messages: ask("late-error"), stream: true });
    for await (const chunk of answer) {
      text += chunk.choices[0]?.delta.content ?? "";
      finish ??= chunk.choices[0]?.finish_reason;
    }
  }, OpenAI.APIError);
  assert.equal(text, "Half an ");
  assert.equal(finish, null);
  report("late-error");
});

test("the end frame alone ends a turn", async () => {
  const answer = await stream("no-turn-ended");
  assert.equal(answer.text, "Short.");
  assert.deepEqual(answer.finish, ["stop"]);
  report("no-turn-ended");
});

test("six seconds of silence, heartbeats both ways", async () => {
  const answer = await stream("silence");
  assert.equal(answer.text, "Still here.");
  assert.ok(report("silence").facts.heartbeats >= 1, "no client heartbeat in six seconds");
});

test("a client that leaves is cancelled upstream", async () => {
  const controller = new AbortController();
  const answer = await client.chat.completions.create(
    { model: "auto", messages: ask("endless"), stream: true },
    { signal: controller.signal },
  );
  try {
    for await (const chunk of answer) if (chunk.choices[0]?.delta.content) controller.abort();
  } catch (error) {
    assert.ok(error instanceof OpenAI.APIUserAbortError);
  }
  const seen = backend.reports.filter((one) => one.scenario === "endless").at(-1);
  for (let waited = 0; waited < 8_000 && !seen.facts.aborted && !seen.facts.finished; waited += 50) {
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.ok(seen.facts.aborted || seen.facts.finished, "the backend still speaks to nobody");
});

test("thirty turns at once", async () => {
  const answers = await Promise.all(Array.from({ length: 30 }, () => stream("plain")));
  assert.deepEqual(new Set(answers.map((answer) => answer.text)), new Set(["Hello from connect-node."]));
  for (const one of backend.reports) assert.deepEqual(one.errors, [], one.scenario);
});
