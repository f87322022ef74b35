// Models as older plugins had them: `"api": {"id", "npm"}` says which model of Cursor's an
// entry stands for. OpenCode takes the field out before a plugin sees it, so it is read from
// the user's own files.

import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { readSmall } from "./files.js";
import { type Bag, isBag } from "./options.js";

const CAP = 1_000_000;
const UPWARDS = 24;
const NAMES = ["config.json", "opencode.json", "opencode.jsonc"];

/** What the files say under `provider.<id>.models.<name>.api`, by name; the nearest counts. */
export async function olderModels(
  id: string,
  directory: string,
  env: Record<string, string | undefined> = process.env,
  home: string = homedir(),
): Promise<Map<string, Bag>> {
  const found = new Map<string, Bag>();
  for (const path of places(directory, env, home)) {
    const config = await read(path);
    const provider = isBag(config) && isBag(config["provider"]) ? config["provider"][id] : undefined;
    const models = isBag(provider) && isBag(provider["models"]) ? provider["models"] : {};
    for (const [name, model] of Object.entries(models)) {
      if (isBag(model) && isBag(model["api"])) found.set(name, model["api"]);
    }
  }
  return found;
}

/** The files in the order in which OpenCode lets one overrule the other. */
function places(directory: string, env: Record<string, string | undefined>, home: string): string[] {
  const global = join(env["XDG_CONFIG_HOME"] || join(home, ".config"), "opencode");
  const folders: string[] = [];
  for (let at = directory; folders.length < UPWARDS; at = dirname(at)) {
    folders.unshift(at);
    if (at === dirname(at)) break;
  }
  const given = env["OPENCODE_CONFIG"] ? [env["OPENCODE_CONFIG"]] : [];
  return [
    ...NAMES.map((name) => join(global, name)),
    ...given,
    ...folders.flatMap((folder) => NAMES.slice(1).map((name) => join(folder, name))),
  ];
}

async function read(path: string): Promise<unknown> {
  try {
    return JSON.parse(plain((await readSmall(path, CAP)) ?? "null"));
  } catch {
    return undefined;
  }
}

/** JSON without comments and last commas; strings stay as they are. */
export function plain(text: string): string {
  const bare = text.replace(/"(?:\\.|[^"\\])*"|\/\/[^\n]*|\/\*[\s\S]*?\*\//g, (part) => (part.startsWith("/") ? " " : part));
  return bare.replace(/"(?:\\.|[^"\\])*"|,(?=\s*[}\]])/g, (part) => (part === "," ? "" : part));
}
