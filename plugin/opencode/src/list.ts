// The list of models: the gateway's, or the last one when that takes too long.

import { mkdir, rename, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { readSmall } from "./files.js";
import { type Connection, isProblem, type Problem } from "./gateway.js";
import { type Offered, readModels } from "./models.js";
import { isBag } from "./options.js";
import { NOT_SIGNED_IN, SIGN_IN } from "./send.js";

/** OpenCode starts only when this is through: a start, or a list that Cursor is slow with. */
const WITHOUT_CACHE_MS = 25_000;
const WITH_CACHE_MS = 3_000;
const ANSWER_MS = 15_000;
const CAP = 2_000_000;

export interface List {
  models: Offered[];
  /** Why there are none, or only older ones. */
  problem?: string;
}

export interface Patience {
  withCache: number;
  without: number;
}

/** Never rejects, and never takes longer than its time. */
export async function listModels(
  connection: Connection,
  cache: Cache | undefined,
  patience: Patience = { withCache: WITH_CACHE_MS, without: WITHOUT_CACHE_MS },
  fetcher: typeof fetch = fetch,
): Promise<List> {
  const last = await cache?.read();
  const asking = ask(connection, fetcher).then(async (outcome) => {
    if (!isProblem(outcome)) await cache?.write(outcome.models);
    return outcome;
  });
  const ms = last ? patience.withCache : patience.without;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<Problem>((resolve) => {
    timer = setTimeout(() => resolve({ problem: `the gateway did not return a model list within ${ms / 1000} s` }), ms);
  });
  const outcome = await Promise.race([asking, late]);
  clearTimeout(timer);
  if (!isProblem(outcome)) return outcome;
  // Who is signed out has no models, whatever the last list says.
  return { models: (isSignedOut(outcome) ? undefined : last) ?? [], problem: outcome.problem };
}

const isSignedOut = (outcome: Problem): boolean => outcome.problem === SIGN_IN;

async function ask(connection: Connection, fetcher: typeof fetch): Promise<List | Problem> {
  try {
    const gateway = await connection.get();
    if (isProblem(gateway)) return gateway;
    const signal = AbortSignal.timeout(ANSWER_MS);
    const answer = await fetcher(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${gateway.key}` }, signal });
    const body: unknown = await answer.json();
    if (!answer.ok) return { problem: refused(answer.status, body) };
    const models = readModels(body);
    return models ? { models } : { problem: "the gateway returned a model list that this plugin does not understand; update both" };
  } catch (error) {
    return { problem: `the gateway did not return a model list: ${error instanceof Error ? error.message : String(error)}` };
  }
}

function refused(status: number, body: unknown): string {
  const error = isBag(body) && isBag(body["error"]) ? body["error"] : {};
  if (status === 401 && error["code"] === NOT_SIGNED_IN) return SIGN_IN;
  const words = typeof error["message"] === "string" ? error["message"] : `status ${status}`;
  return `the gateway did not return a model list: ${words}`;
}

/** The last list, in a file of the user's cache folder. It holds no secret. */
export class Cache {
  #path: string;
  #of: string;

  /** `of`: the account that a list belongs to, as far as the surroundings tell. */
  constructor(path: string, of: string) {
    this.#path = path;
    this.#of = of;
  }

  /** `flags`: those of `ibeam start`, which choose an account, too. */
  static here(flags: string[], env: Record<string, string | undefined> = process.env): Cache {
    const local = process.platform === "win32" ? env["LOCALAPPDATA"] : undefined;
    const folder = local ?? env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache");
    const of = [env["IBEAM_PROFILE"] ?? "default", env["IBEAM_API_URL"] ?? env["CURSOR_API_URL"] ?? "", ...flags].join("|");
    return new Cache(join(folder, "ibeam", "opencode-models.json"), of);
  }

  async read(): Promise<Offered[] | undefined> {
    try {
      const value: unknown = JSON.parse((await readSmall(this.#path, CAP)) ?? "null");
      if (!isBag(value) || value["of"] !== this.#of || !Array.isArray(value["models"])) return undefined;
      const models = value["models"].filter(isOffered);
      return models.length > 0 ? models : undefined;
    } catch {
      return undefined;
    }
  }

  /** There at once, or not at all. A cache that cannot be written is done without. */
  async write(models: Offered[]): Promise<void> {
    try {
      await mkdir(dirname(this.#path), { recursive: true, mode: 0o700 });
      const fresh = `${this.#path}.${process.pid}`;
      await writeFile(fresh, JSON.stringify({ of: this.#of, models }), { mode: 0o600 });
      await rename(fresh, this.#path);
    } catch {
      return;
    }
  }
}

function isOffered(value: unknown): value is Offered {
  if (!isBag(value)) return false;
  const texts = ["id", "name"].every((name) => typeof value[name] === "string");
  const numbers = ["context", "output"].every((name) => typeof value[name] === "number");
  const flags = ["tools", "images", "reasoning"].every((name) => typeof value[name] === "boolean");
  return texts && numbers && flags && Array.isArray(value["efforts"]);
}
