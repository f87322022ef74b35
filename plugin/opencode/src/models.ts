// The gateway's models, as OpenCode's configuration has them.

import { type Bag, isBag } from "./options.js";

/** What OpenCode offers for every model that thinks, unless configured otherwise. */
const USUAL_EFFORTS = ["low", "medium", "high"];
const AUTO = "auto";
const CONTEXT = 200_000;
const OUTPUT = 32_000;

/** One entry of `GET /v1/models`, as far as it is understood. */
export interface Offered {
  id: string;
  name: string;
  context: number;
  output: number;
  tools: boolean;
  images: boolean;
  reasoning: boolean;
  efforts: string[];
}

/** The models before the list is known: Cursor's own choice, and those that users ask for by name. */
export function assumed(names: string[]): Offered[] {
  return [...new Set([AUTO, ...names])].map((id) => ({
    id,
    name: id === AUTO ? "Auto" : id,
    context: CONTEXT,
    output: OUTPUT,
    tools: true,
    images: true,
    reasoning: false,
    efforts: [],
  }));
}

/** Reads the list; what has no id is passed over. */
export function readModels(body: unknown): Offered[] | undefined {
  if (!isBag(body) || !Array.isArray(body["data"])) return undefined;
  return body["data"].filter(isBag).flatMap((card) => {
    const id = card["id"];
    if (typeof id !== "string" || id === "") return [];
    const can = isBag(card["capabilities"]) ? card["capabilities"] : {};
    const efforts = Array.isArray(can["efforts"]) ? can["efforts"] : [];
    return {
      id,
      name: typeof card["name"] === "string" && card["name"] ? card["name"] : id,
      context: tokens(card["context_window"], CONTEXT),
      output: tokens(card["max_output_tokens"], OUTPUT),
      tools: can["tools"] !== false,
      images: can["images"] === true,
      reasoning: can["reasoning"] === true,
      efforts: efforts.filter((effort): effort is string => typeof effort === "string"),
    };
  });
}

const tokens = (value: unknown, otherwise: number): number =>
  typeof value === "number" && Number.isSafeInteger(value) && value > 0 ? value : otherwise;

/** A model of the list, in OpenCode's words. */
export function described(model: Offered): Bag {
  const entry: Bag = {
    name: model.name,
    attachment: model.images,
    reasoning: model.reasoning,
    temperature: false,
    tool_call: model.tools,
    limit: { context: model.context, output: model.output },
    modalities: { input: model.images ? ["text", "image"] : ["text"], output: ["text"] },
    // The plan pays; OpenCode has no other way to say so.
    cost: { input: 0, output: 0, cache_read: 0, cache_write: 0 },
  };
  if (model.reasoning && model.efforts.length > 0) entry["variants"] = variants(model.efforts);
  return entry;
}

function variants(efforts: string[]): Bag {
  const all: Bag = {};
  for (const effort of USUAL_EFFORTS) if (!efforts.includes(effort)) all[effort] = { disabled: true };
  for (const effort of efforts) all[effort] = { reasoningEffort: effort };
  return all;
}

/**
 * The models of the list beside those of the user. What the user wrote stays, word for word;
 * what was left out comes from the model it stands for. `older` has the `api: {id, npm}` of
 * before, which says the same as `id` and `provider.npm`.
 */
export function merged(offered: Offered[], own: unknown, older: ReadonlyMap<string, Bag> = new Map()): Bag {
  const live = new Map(offered.map((model) => [model.id, described(model)]));
  const result: Bag = Object.fromEntries(live);
  for (const [name, given] of Object.entries(isBag(own) ? own : {})) {
    if (!isBag(given)) continue;
    const api = older.get(name);
    const model: Bag = api ? { ...given, ...said(given, api) } : given;
    const stands = typeof model["id"] === "string" ? model["id"] : name;
    result[name] = { ...live.get(stands), ...model };
  }
  return result;
}

function said(model: Bag, api: Bag): Bag {
  const now: Bag = {};
  if (typeof api["id"] === "string") now["id"] = api["id"];
  if (typeof api["npm"] === "string") {
    now["provider"] = { npm: api["npm"], ...(isBag(model["provider"]) ? model["provider"] : {}) };
  }
  return now;
}
