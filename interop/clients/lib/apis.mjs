// What the three APIs look like from outside: where they are, whether a request offers
// tools, which calls a stream asks for, and what its last words are. Nothing here comes
// from the gateway.

const offers = (body) => body.tools?.length > 0;

export const chat = {
  path: "/v1/chat/completions",
  offers,
  calls: (text) =>
    events(text)
      .flatMap((chunk) => chunk.choices.flatMap((choice) => choice.delta.tool_calls ?? []))
      .flatMap((call) => call.function?.name ?? []),
  ended: (text) => /"finish_reason":"\w+"/.test(text) && text.endsWith("data: [DONE]\n\n"),
};

export const responses = {
  path: "/v1/responses",
  // For some models Codex puts its tools among the messages, once for a conversation.
  offers: (body) =>
    offers(body) ||
    Boolean(body.previous_response_id) ||
    body.input.some((item) => item.type === "additional_tools"),
  calls: (text) =>
    events(text)
      .filter((event) => event.type === "response.output_item.done")
      .filter(({ item }) => ["function_call", "custom_tool_call"].includes(item.type))
      .map((event) => event.item.name),
  ended: (text) => events(text).at(-1)?.type === "response.completed",
};

export const messages = {
  path: "/v1/messages",
  offers,
  calls: (text) =>
    events(text)
      .filter((event) => event.type === "content_block_start")
      .filter((event) => event.content_block.type === "tool_use")
      .map((event) => event.content_block.name),
  ended: (text) => /"stop_reason":"\w+"/.test(text) && events(text).at(-1)?.type === "message_stop",
};

/** What the events of a stream carry. */
function events(text) {
  const lines = text.split("\n").filter((line) => line.startsWith("data: {"));
  return lines.map((line) => JSON.parse(line.slice("data: ".length)));
}
