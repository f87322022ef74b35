// The hooks. None of them may throw, whatever is wrong with ibeam: OpenCode and its other
// plugins go on without it.

import type { Config, Hooks, Plugin, PluginInput } from "@opencode-ai/plugin";
import { adopt } from "./adopt.js";
import { findBinary } from "./binary.js";
import { Connection, starter } from "./gateway.js";
import { Cache, listModels } from "./list.js";
import { assumed, merged } from "./models.js";
import { olderModels } from "./older.js";
import { type Bag, isBag, readOptions } from "./options.js";
import { type Sender, sender } from "./send.js";
import { MARKER, methods } from "./signin.js";
import { teller } from "./words.js";

export const PROVIDER = "cursor";
const NPM = "@ai-sdk/openai-compatible";
/** Where requests are addressed to before a gateway runs; `Sender` knows better. */
const NOWHERE = "http://127.0.0.1:18741";

export const server: Plugin = async (input, given) => {
  try {
    return hooks(input, given);
  } catch (error) {
    process.stderr.write(`ibeam: the plugin did not start: ${String(error)}\n`);
    return {};
  }
};

function hooks(input: PluginInput, given: unknown): Hooks {
  const say = teller(input.client);
  let { options, complaints } = readOptions(given);
  const find = (): ReturnType<typeof findBinary> => findBinary(options.bin);
  const flags = (): string[] => options.args;
  const connection = new Connection(starter(find, flags));
  // Asked for each time, since options may come with the configuration.
  const send: Sender = (target, init) => sender(connection, options.sessionReuse)(target, init);

  const configure = async (config: Config): Promise<void> => {
    const providers = ((config as Bag)["provider"] ??= {}) as Bag;
    const own = isBag(providers[PROVIDER]) ? providers[PROVIDER] : {};
    const set = isBag(own["options"]) ? own["options"] : {};
    ({ options, complaints } = readOptions(given, set));
    complaints.forEach(say);
    const shown = provider(own, set, options.timeout, send);
    const older = isBag(own["models"]) ? await olderModels(PROVIDER, input.directory ?? process.cwd()) : undefined;
    providers[PROVIDER] = { ...shown, models: merged(assumed(chosen(config)), own["models"], older) };
    const { models, problem } = await listModels(connection, options.cacheModels ? Cache.here(flags()) : undefined);
    if (problem) say(problem);
    // Without any OpenCode would not know the provider, and fail where it could tell the reason.
    const offered = models.length > 0 ? models : assumed(chosen(config));
    providers[PROVIDER] = { ...shown, models: merged(offered, own["models"], older) };
  };

  return {
    config: (config) => guarded(() => configure(config), say),
    auth: {
      provider: PROVIDER,
      methods: methods(find, flags, say),
      async loader(stored) {
        const keep = (key: string): Promise<unknown> => input.client.auth.set({ path: { id: PROVIDER }, body: { type: "api", key } });
        await guarded(() => adopt({ stored, find, flags, keep, say }), say);
        return { apiKey: MARKER, fetch: send };
      },
    },
  };
}

/** The provider as OpenCode gets it: what the user set, and what is missing there. */
function provider(own: Bag, set: Bag, timeout: number | undefined, send: Sender): Bag {
  const { timeout: _, ...rest } = set;
  const limit = timeout === undefined ? (set["timeout"] === false ? { timeout: false } : {}) : { timeout };
  return {
    npm: NPM,
    name: "Cursor",
    ...own,
    options: { baseURL: `${NOWHERE}/v1`, apiKey: MARKER, ...rest, ...limit, fetch: send },
  };
}

/** The models of this provider that the settings name. */
function chosen(config: Config): string[] {
  const named = [config.model, config.small_model].filter((name) => typeof name === "string");
  return named.filter((name) => name.startsWith(`${PROVIDER}/`)).map((name) => name.slice(PROVIDER.length + 1));
}

async function guarded(act: () => Promise<void>, say: (text: string) => void): Promise<void> {
  try {
    await act();
  } catch (error) {
    say(`the plugin failed: ${error instanceof Error ? error.message : String(error)}`);
  }
}
