// The server's side of one turn: asks, waits for the answer, checks it.

import { create } from "@bufbuild/protobuf";
import { blob, requestContext, sha256, strict } from "./check.mjs";
import { schema } from "./schema.mjs";

/** How long a `stream_close` is waited for; nothing depends on it. */
const CLOSE_LIMIT_MS = 100;

export class Turn {
  #next = 1;

  constructor({ report, inbox, request, refs, signal }) {
    Object.assign(this, { report, inbox, request, refs, signal });
    this.text = request.action.action.value.userMessage.text;
  }

  /** A server message with the given arm. */
  message(arm, value) {
    return create(schema("AgentServerMessage"), { message: { case: arm, value } });
  }

  update(arm, value = {}) {
    return this.message("interactionUpdate", { message: { case: arm, value } });
  }

  words(text) {
    return this.update("textDelta", { text });
  }

  /** Waits for a client message; complains when it is another one or none. */
  async answer(arm, test = () => true) {
    const got = await this.inbox.next();
    const instead = got === null ? "nothing in time" : (got?.case ?? "the end");
    const ok = this.report.expect(got?.case === arm, `expected ${arm}, got ${instead}`);
    if (ok) this.report.expect(test(got.value), `${arm} is not as expected: ${show(got.value)}`);
    return ok ? got.value : undefined;
  }

  /** Asks for the request context by exec and checks it. */
  async *askContext(execId = "context-1") {
    const id = this.#next++;
    yield this.message("execServerMessage", { id, execId, message: { case: "requestContextArgs", value: {} } });
    const got = await this.answer("execClientMessage", (value) => value.id === id && (value.execId ?? "") === execId);
    const result = got?.message;
    this.report.expect(result?.case === "requestContextResult", `a context result, got ${result?.case}`);
    const success = result?.value?.result;
    if (this.report.expect(success?.case === "success", `the context was given, got ${success?.case}`)) {
      requestContext(this.report, success.value.requestContext);
      this.report.facts.context = success.value.requestContext;
      await this.maybeClose(id);
    }
  }

  /** `stream_close` after an exec result may be sent or left out. */
  async maybeClose(id) {
    const got = await this.inbox.next(CLOSE_LIMIT_MS);
    if (got === null || got === undefined) return;
    const fine =
      got.case === "execClientControlMessage" &&
      got.value.message.case === "streamClose" &&
      (got.value.message.value.id ?? 0) === id;
    this.report.expect(fine, `after a result only stream_close{${id}} may come, got ${show(got)}`);
  }

  /** Fetches every blob the state refers to, and what those refer to. */
  async *fetchBlobs() {
    const seen = new Set();
    const open = [...this.refs];
    while (open.length > 0) {
      const [hex, kind] = open.shift();
      if (seen.has(hex)) continue;
      seen.add(hex);
      const id = this.#next++;
      yield this.message("kvServerMessage", {
        id,
        message: { case: "getBlobArgs", value: { blobId: Buffer.from(hex, "hex") } },
      });
      const got = await this.answer("kvClientMessage", (value) => value.id === id);
      const result = got?.message;
      if (!this.report.expect(result?.case === "getBlobResult", `a get result, got ${result?.case}`)) return;
      const data = result.value.blobData;
      if (!this.report.expect(data !== undefined, `blob ${hex} (${kind}) is missing`)) continue;
      this.report.expect(sha256(data).toString("hex") === hex, `blob ${hex} (${kind}) has another hash`);
      open.push(...blob(this.report, kind, data));
    }
    this.report.facts.blobs = seen.size;
  }

  /** Stores a blob with the client and waits for the acknowledgement. */
  async *store(value) {
    const data = Buffer.from(JSON.stringify(value));
    const id = this.#next++;
    yield this.message("kvServerMessage", {
      id,
      message: { case: "setBlobArgs", value: { blobId: sha256(data), blobData: data } },
    });
    const got = await this.answer("kvClientMessage", (answer) => answer.id === id);
    const result = got?.message;
    this.report.expect(result?.case === "setBlobResult" && !result.value.error, `a set result: ${show(result)}`);
    return sha256(data);
  }

  /** Asks for an approval; returns the response's arm and value. */
  async *query(id, arm, value) {
    yield this.message("interactionQuery", { id, query: { case: arm, value } });
    const got = await this.answer("interactionResponse", (answer) => answer.id === id);
    return got?.result;
  }

  /** Orders an exec; returns the next client message. */
  async *exec(message) {
    const id = this.#next++;
    const execId = `exec-${id}`;
    yield create(schema("AgentServerMessage"), {
      message: { case: "execServerMessage", value: { id, execId, ...message } },
    });
    return { id, execId, got: await this.inbox.next() };
  }

  /** What comes before the model speaks. */
  async *begin() {
    const action = this.request.action.action.value;
    if (action.requestContext) this.report.facts.context = action.requestContext;
    else yield* this.askContext();
    yield* this.fetchBlobs();
    yield* this.store({ role: "user", content: [{ type: "text", text: this.text }] });
    yield this.update("userMessageAppended", { userMessage: action.userMessage });
    yield this.update("stepStarted", { stepId: 1n });
  }

  /** What comes after it. */
  async *end(text, usage = { inputTokens: 11n, outputTokens: 7n }) {
    const id = yield* this.store({ role: "assistant", content: [{ type: "text", text }] });
    yield this.message("conversationCheckpointUpdate", {
      rootPromptMessagesJson: [id],
      tokenDetails: { usedTokens: 18, maxTokens: 200_000 },
    });
    yield this.update("stepCompleted", { stepId: 1n, stepDurationMs: 5n });
    yield this.update("turnEnded", usage);
  }

  strict(name, bytes) {
    return strict(this.report, name, bytes);
  }
}

function show(value) {
  return JSON.stringify(value, (_key, inner) => (typeof inner === "bigint" ? `${inner}n` : inner))?.slice(0, 400);
}
