// The turns the independent server can play, by the name in the user's words.

import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { schema } from "./schema.mjs";

const RATE_LIMITED = 50;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function failure(code, message, error, details) {
  return new ConnectError(message, code, undefined, [
    { desc: schema("aiserver.v1.ErrorDetails"), value: { error, details, isExpected: true } },
  ]);
}

export const scenarios = {
  async *plain(turn) {
    yield* turn.begin();
    for (const word of ["Hello ", "from ", "connect-node."]) {
      yield turn.words(word);
      yield turn.update("tokenDelta", { tokens: 2 });
    }
    yield* turn.end("Hello from connect-node.");
  },

  async *thinking(turn) {
    yield* turn.begin();
    yield turn.update("thinkingDelta", { text: "Let me " });
    yield turn.update("thinkingDelta", { text: "see." });
    yield turn.update("thinkingCompleted", { thinkingDurationMs: 12 });
    yield turn.words("Seen.");
    yield* turn.end("Seen.");
  },

  // The context may be asked for at any time, also when it was sent inline, and
  // with an empty exec id.
  async *context(turn) {
    yield* turn.begin();
    yield turn.words("One.");
    yield* turn.askContext("");
    yield turn.words(" Two.");
    yield* turn.end("One. Two.");
  },

  async *history(turn) {
    yield* turn.begin();
    const prompt = turn.report.facts.prompt ?? [];
    yield turn.words(`${prompt.length} messages, ${turn.report.facts.blobs} blobs.`);
    yield* turn.end("counted");
  },

  // More than fits one HTTP/2 DATA frame, so gzip has something to do.
  async *gzip(turn) {
    yield* turn.begin();
    const line = "All work and no play makes a dull stream. ".repeat(100);
    for (let index = 0; index < 20; index += 1) yield turn.words(`${index}: ${line}`);
    yield* turn.end("long");
  },

  async *query(turn) {
    yield* turn.begin();
    const search = yield* turn.query(4, "webSearchRequestQuery", {
      args: { searchTerm: "weather", toolCallId: "call_1" },
    });
    turn.report.facts.search = search;
    turn.report.expect(search?.case === "webSearchRequestResponse", `the same arm comes back, got ${search?.case}`);
    const mode = yield* turn.query(0, "switchModeRequestQuery", {
      args: { targetModeId: "plan", toolCallId: "call_2" },
    });
    turn.report.expect(mode?.case === "switchModeRequestResponse", `the same arm comes back, got ${mode?.case}`);
    const verdict = search?.value?.result?.case;
    yield turn.words(`Search was ${verdict}.`);
    yield* turn.end("asked");
  },

  // An arm that no table knows must be thrown back, and must not end the turn.
  async *unknown(turn) {
    yield* turn.begin();
    const { id, got } = yield* turn.exec({
      $unknown: [{ no: 99, wireType: 2, data: new Uint8Array([2, 8, 1]) }],
    });
    const control = got?.value?.message;
    turn.report.expect(
      got?.case === "execClientControlMessage" && control?.case === "throw" && control.value.id === id,
      `an unknown exec is thrown back, got ${got?.case} ${control?.case}`,
    );
    turn.report.expect(control?.value?.error, "the throw says why");
    const close = await turn.inbox.next();
    const closed = close?.case === "execClientControlMessage" && close.value.message;
    turn.report.expect(
      closed && closed.case === "streamClose" && closed.value.id === id,
      `its stream is closed, got ${close?.case} ${closed?.case}`,
    );
    yield turn.words("Thrown.");
    yield* turn.end("Thrown.");
  },

  // A built-in tool that ibeam does not serve is refused with its own refusal.
  async *refuse(turn) {
    yield* turn.begin();
    const { id, execId, got } = yield* turn.exec({
      message: { case: "readArgs", value: { path: "/etc/hostname", toolCallId: "call_9" } },
    });
    const result = got?.value?.message;
    turn.report.expect(
      got?.case === "execClientMessage" && got.value.id === id && got.value.execId === execId,
      `the exec's ids come back, got ${got?.case}`,
    );
    turn.report.expect(
      result?.case === "readResult" && result.value.result.case === "rejected",
      `a read is rejected, got ${result?.case} ${result?.value?.result?.case}`,
    );
    turn.report.expect(result?.value?.result?.value?.reason, "the refusal says why");
    await turn.maybeClose(id);
    yield turn.words("Refused.");
    yield* turn.end("Refused.");
  },

  async *image(turn) {
    yield* turn.begin();
    const images = turn.request.action.action.value.userMessage.selectedContext?.selectedImages ?? [];
    yield turn.words(`${images.length} image, ${images[0]?.mimeType}, ${images[0]?.dataOrBlobId.value?.length} bytes.`);
    yield* turn.end("seen");
  },

  async *error(turn) {
    yield* turn.begin();
    throw failure(Code.ResourceExhausted, "Error", RATE_LIMITED, {
      title: "Slow down",
      detail: "Too many requests in a short time.",
      isRetryable: true,
      additionalInfo: { providerStatusCode: "429" },
    });
  },

  async *"late-error"(turn) {
    yield* turn.begin();
    yield turn.words("Half an ");
    throw new ConnectError("the model fell over", Code.Internal);
  },

  // Ends with the end frame only.
  async *"no-turn-ended"(turn) {
    yield* turn.begin();
    yield turn.words("Short.");
  },

  // A long silence is healthy as long as there are heartbeats, in both directions.
  async *silence(turn) {
    yield* turn.begin();
    for (let index = 0; index < 6; index += 1) {
      await pause(1_000);
      yield turn.update("heartbeat");
    }
    yield turn.words("Still here.");
    yield* turn.end("Still here.");
  },

  // Speaks until the client leaves.
  async *endless(turn) {
    yield* turn.begin();
    for (let index = 0; index < 3_000 && !turn.signal.aborted; index += 1) {
      yield turn.words(`word${index} `);
      await pause(20);
    }
  },
};

/** Kept so that a typo in a detail shows at load time, not in a turn. */
create(schema("aiserver.v1.ErrorDetails"), { error: RATE_LIMITED });
