// What the server demands of what it receives.

import { fromBinary } from "@bufbuild/protobuf";
import { reflect } from "@bufbuild/protobuf/reflect";
import { ValueSchema } from "@bufbuild/protobuf/wkt";
import { createHash } from "node:crypto";
import { schema } from "./schema.mjs";

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

export const sha256 = (bytes) => createHash("sha256").update(bytes).digest();

/** Collects complaints instead of throwing, so that one run shows them all. */
export class Report {
  errors = [];
  facts = {};

  expect(condition, words) {
    if (!condition) this.errors.push(words);
    return Boolean(condition);
  }
}

/** Every field that the tables do not know, at any depth. */
export function unknownFields(desc, message, path = desc.name) {
  const found = (message.$unknown ?? []).map((field) => `${path}#${field.no} (wire type ${field.wireType})`);
  const view = reflect(desc, message);
  for (const field of desc.fields) {
    if (!view.isSet(field)) continue;
    const at = `${path}.${field.name}`;
    if (field.fieldKind === "message") {
      found.push(...unknownFields(field.message, view.get(field).message, at));
    } else if (field.fieldKind === "list" && field.listKind === "message") {
      for (const item of view.get(field)) found.push(...unknownFields(field.message, item.message, at));
    } else if (field.fieldKind === "map" && field.mapKind === "message") {
      for (const [, item] of view.get(field)) found.push(...unknownFields(field.message, item.message, at));
    }
  }
  return found;
}

/** The headers of the CLI profile. */
export function headers(report, got, token) {
  const is = (name, test, words) =>
    report.expect(test(got.get(name) ?? ""), `header ${name}: ${words}, got ${JSON.stringify(got.get(name))}`);
  is("authorization", (value) => value === `Bearer ${token}`, "the user's token");
  is("connect-protocol-version", (value) => value === "1", "1");
  is("content-type", (value) => value === "application/connect+proto", "application/connect+proto");
  is("x-cursor-client-type", (value) => value === "cli", "cli");
  is("x-cursor-client-version", (value) => /^cli-\d{4}\.\d{2}\.\d{2}-/.test(value), "cli-<build>");
  is("x-ghost-mode", (value) => value === "true", "true");
  is("x-request-id", (value) => UUID.test(value), "a UUID");
  const original = got.get("x-original-request-id");
  report.expect(original === null || UUID.test(original), "x-original-request-id is a UUID");
  report.expect(!got.has("x-cursor-checksum"), "the CLI profile sends no checksum");
  report.facts.gzip = (got.get("connect-accept-encoding") ?? "").includes("gzip");
}

function blobId(report, id, what) {
  report.expect(id.length === 32, `${what}: a blob id has 32 bytes, this has ${id.length}`);
  return Buffer.from(id).toString("hex");
}

/** Checks a run request and returns the blob ids that it refers to. */
export function runRequest(report, run, models) {
  const state = run.conversationState;
  report.expect(state, "conversation_state must be present");
  report.expect(UUID.test(run.conversationId ?? ""), `conversation_id is a UUID, got ${run.conversationId}`);
  report.expect(!run.customSystemPrompt, "custom_system_prompt is for allow-listed teams only");
  report.expect(!run.excludeWorkspaceContext, "exclude_workspace_context is refused");
  report.expect(!run.skillOptions, "skill_options must not be sent");
  const ids = [run.requestedModel?.modelId, run.modelDetails?.modelId].filter(Boolean);
  report.expect(ids.length > 0, "no model");
  for (const id of ids) report.expect(models.includes(id), `model ${id} was never offered`);
  report.expect(new Set(ids).size <= 1, `two different models: ${ids}`);
  for (const tool of run.mcpTools?.mcpTools ?? []) toolDefinition(report, tool);

  const action = run.action?.action;
  const refs = new Map();
  if (report.expect(action?.case === "userMessageAction", `action is user_message_action, got ${action?.case}`)) {
    userMessage(report, action.value.userMessage, refs);
    if (action.value.requestContext) requestContext(report, action.value.requestContext);
  }
  for (const id of state?.rootPromptMessagesJson ?? []) refs.set(blobId(report, id, "root prompt"), "prompt");
  for (const id of state?.turns ?? []) refs.set(blobId(report, id, "turn"), "turn");
  for (const blob of run.preFetchedBlobs ?? []) {
    report.expect(sha256(blob.value).equals(Buffer.from(blob.id)), "a pre-fetched blob is not what its id says");
  }
  return refs;
}

function userMessage(report, message, refs) {
  if (!report.expect(message, "user_message is missing")) return;
  report.expect(UUID.test(message.messageId ?? ""), `message_id is a UUID, got ${message.messageId}`);
  report.expect(message.mode === 1, `mode is 1 (agent), got ${message.mode}`);
  for (const image of message.selectedContext?.selectedImages ?? []) {
    report.expect(UUID.test(image.uuid ?? ""), `image uuid, got ${image.uuid}`);
    report.expect(/^image\//.test(image.mimeType ?? ""), `image mime type, got ${image.mimeType}`);
    const { case: kind, value } = image.dataOrBlobId;
    report.expect(kind, "an image without data");
    if (kind === "blobId") refs.set(blobId(report, value, "image"), "raw");
    if (kind === "data") report.expect(value.length > 0, "an empty image");
  }
}

export function requestContext(report, context) {
  // Which of its fields a client fills is its own affair; the tables were checked.
  report.expect(context.env?.osVersion, "request_context.env.os_version is missing");
  for (const rule of context.rules) {
    report.expect(rule.content, "a rule without content");
    report.expect(rule.type?.type.case, "a rule without type");
  }
  for (const tool of context.tools) toolDefinition(report, tool);
}

function toolDefinition(report, tool) {
  report.expect(tool.name && tool.toolName && tool.providerIdentifier, `an incomplete tool: ${tool.name}`);
  try {
    const value = fromBinary(ValueSchema, tool.inputSchema);
    report.expect(value.kind.case === "structValue", `${tool.name}: the schema is not an object`);
  } catch (error) {
    report.expect(false, `${tool.name}: the schema is not a google.protobuf.Value: ${error}`);
  }
}

/** Checks a blob's bytes, and returns the blob ids inside. */
export function blob(report, kind, bytes) {
  const refs = new Map();
  if (kind === "prompt") {
    const text = Buffer.from(bytes).toString("utf8");
    try {
      const message = JSON.parse(text);
      report.expect(["system", "user", "assistant", "tool"].includes(message.role), `prompt role ${message.role}`);
      (report.facts.prompt ??= []).push(message);
    } catch (error) {
      report.expect(false, `a prompt blob is not JSON: ${error}: ${text}`);
    }
  } else if (kind === "turn") {
    const turn = strict(report, "ConversationTurnStructure", bytes);
    if (report.expect(turn?.turn.case === "agentConversationTurn", "a turn of another kind")) {
      refs.set(blobId(report, turn.turn.value.userMessage, "turn.user_message"), "user");
      for (const id of turn.turn.value.steps) refs.set(blobId(report, id, "turn.steps"), "step");
    }
  } else if (kind === "user") {
    const message = strict(report, "UserMessage", bytes);
    if (message) userMessage(report, message, refs);
  } else if (kind === "step") {
    const step = strict(report, "ConversationStep", bytes);
    report.expect(step?.message.case, "an empty step");
  }
  return refs;
}

/** Decodes and complains about unknown fields. */
export function strict(report, name, bytes) {
  const desc = schema(name);
  try {
    const message = fromBinary(desc, bytes);
    for (const field of unknownFields(desc, message)) report.expect(false, `unknown field ${field}`);
    return message;
  } catch (error) {
    report.expect(false, `${name} does not decode: ${error}`);
    return undefined;
  }
}
