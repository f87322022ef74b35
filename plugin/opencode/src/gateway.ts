// The shared gateway of this user. The program finds it or starts it; here is only which one
// that was, and the question whether it still lives.

import { run } from "./child.js";
import { isBag } from "./options.js";

export interface Gateway {
  url: string;
  key: string;
  pid: number;
}

export type Start = (ms: number) => Promise<Gateway | Problem>;

export interface Problem {
  problem: string;
}

export const isProblem = (value: object): value is Problem => "problem" in value;

/** Longer than the program itself waits for its turn and for the gateway: it ends by itself. */
const START_MS = 95_000;
const HEALTH_MS = 2_000;
/** After so long without a request, ask whether it is still the same. */
const IDLE_MS = 60_000;

/** Asks the program for a gateway. */
export function starter(find: () => { path: string } | { missing: string }, flags: () => string[] = () => []): Start {
  return async (ms) => {
    const found = find();
    if ("missing" in found) return { problem: found.missing };
    const child = run(found.path, ["start", "--json", ...flags()], ms);
    const line = await child.line(ms);
    const code = await child.ended;
    if (line === undefined || code !== 0) {
      const why = child.words() || (code === null ? `no answer within ${ms / 1000} s` : `it ended with ${code}`);
      return { problem: `\`ibeam start\` failed: ${why}` };
    }
    return readGateway(line) ?? { problem: "`ibeam start --json` gave an answer that this plugin does not know; update both" };
  };
}

export function readGateway(line: string): Gateway | undefined {
  try {
    const value: unknown = JSON.parse(line);
    if (!isBag(value)) return undefined;
    const { url, key, pid } = value;
    if (typeof url !== "string" || typeof key !== "string" || typeof pid !== "number") return undefined;
    const { protocol, hostname } = new URL(url);
    // A key never leaves this machine.
    if (protocol !== "http:" || !["127.0.0.1", "localhost", "[::1]"].includes(hostname)) return undefined;
    return { url: url.replace(/\/+$/, ""), key, pid };
  } catch {
    return undefined;
  }
}

/** One gateway for all requests of this process; who comes while it starts waits for it. */
export class Connection {
  #start: Start;
  #fetch: typeof fetch;
  #now: () => number;
  #gateway: Gateway | undefined;
  #starting: Promise<Gateway | Problem> | undefined;
  #used = 0;

  constructor(start: Start, fetcher: typeof fetch = fetch, now: () => number = Date.now) {
    this.#start = start;
    this.#fetch = fetcher;
    this.#now = now;
  }

  async get(): Promise<Gateway | Problem> {
    const known = this.#gateway;
    if (known) {
      const idle = this.#now() - this.#used;
      if (idle < IDLE_MS || (await this.#isHealthy(known))) {
        this.#used = this.#now();
        return known;
      }
      return this.renew(known);
    }
    return this.#begin();
  }

  /** Another one in the place of `stale`, unless somebody has seen to that already. */
  async renew(stale: Gateway): Promise<Gateway | Problem> {
    if (this.#gateway && this.#gateway !== stale) return this.#gateway;
    this.#gateway = undefined;
    return this.#begin();
  }

  #begin(): Promise<Gateway | Problem> {
    this.#starting ??= this.#start(START_MS)
      .catch((error: unknown) => ({ problem: `\`ibeam start\` failed: ${String(error)}` }))
      .then((outcome) => {
        this.#starting = undefined;
        if (!isProblem(outcome)) {
          this.#gateway = outcome;
          this.#used = this.#now();
        }
        return outcome;
      });
    return this.#starting;
  }

  async #isHealthy(gateway: Gateway): Promise<boolean> {
    try {
      const answer = await this.#fetch(`${gateway.url}/health`, { signal: AbortSignal.timeout(HEALTH_MS) });
      const body: unknown = await answer.json();
      return answer.ok && isBag(body) && "backend" in body && "version" in body;
    } catch {
      return false;
    }
  }
}
