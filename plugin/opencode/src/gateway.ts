// The shared gateway of this user. The program finds it or starts it; here is only which one
// that was, and the question whether it still lives.

import { createHash, createHmac, randomBytes, timingSafeEqual } from "node:crypto";
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
/** After so long without a request, it has to show again that it is still the same. */
const IDLE_MS = 1_000;

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
    return readGateway(line) ?? { problem: "`ibeam start --json` printed something that this plugin does not understand; update both" };
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

/** What a gateway with this key answers to a challenge. Its address is part of it, so that a
 * program that has taken the port cannot get the answer from the real one on another port. */
export function proofOf(gateway: Gateway, challenge: string): string {
  const key = createHash("sha256").update(gateway.key).digest();
  const authority = gateway.url.replace(/^http:\/\//, "");
  return createHmac("sha256", key).update(`ibeam gateway proof 1\0${authority}\0${challenge}`).digest("hex");
}

function isProof(given: string | null, gateway: Gateway, challenge: string): boolean {
  const wanted = Buffer.from(proofOf(gateway, challenge));
  const found = Buffer.from(given ?? "");
  return found.length === wanted.length && timingSafeEqual(found, wanted);
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
      if (idle < IDLE_MS || (await this.#isItself(known))) {
        this.#used = this.#now();
        return known;
      }
      return this.renew(known);
    }
    return this.#begin();
  }

  /** Another one in place of `stale`, unless it was replaced already. */
  async renew(stale: Gateway): Promise<Gateway | Problem> {
    if (this.#gateway && this.#gateway !== stale) return this.#gateway;
    this.#gateway = undefined;
    return this.#begin();
  }

  #begin(): Promise<Gateway | Problem> {
    this.#starting ??= this.#startProven()
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

  /** A program that has not shown that it is the gateway gets neither key nor prompt. One may have
   * ended a moment ago, so there is a second attempt. */
  async #startProven(): Promise<Gateway | Problem> {
    let problem = "";
    for (let attempt = 0; attempt < 2; attempt++) {
      const outcome = await this.#start(START_MS);
      if (isProblem(outcome)) return outcome;
      const who = await this.#ask(outcome);
      if (who === "itself") return outcome;
      problem =
        who === "silent"
          ? `the gateway at ${outcome.url} does not answer`
          : `the program at ${outcome.url} is not your gateway: it does not have the gateway's key. Nothing was sent to it`;
    }
    return { problem };
  }

  async #isItself(gateway: Gateway): Promise<boolean> {
    return (await this.#ask(gateway)) === "itself";
  }

  /** Asks it to show that it has the key, without sending that. */
  async #ask(gateway: Gateway): Promise<"itself" | "stranger" | "silent"> {
    const challenge = randomBytes(32).toString("hex");
    try {
      const answer = await this.#fetch(`${gateway.url}/health`, {
        headers: { "x-ibeam-challenge": challenge },
        redirect: "error",
        signal: AbortSignal.timeout(HEALTH_MS),
      });
      await answer.body?.cancel();
      return isProof(answer.headers.get("x-ibeam-proof"), gateway, challenge) ? "itself" : "stranger";
    } catch {
      return "silent";
    }
  }
}
