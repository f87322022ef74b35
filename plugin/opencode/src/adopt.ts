// A key that was typed into OpenCode's own form is in its store: the program gets it, and the
// store the word that stands for it.

import { isBag } from "./options.js";
import { handOver, MARKER } from "./signin.js";

/** OpenCode waits for this while it loads the provider. What takes longer goes on behind it. */
const PATIENCE_MS = 5_000;

export interface Adoption {
  stored(): Promise<unknown>;
  find(): { path: string } | { missing: string };
  flags(): string[];
  /** Puts a word into the store, by way of OpenCode's server. */
  keep(word: string): Promise<unknown>;
  say(text: string): void;
}

/** The key that is being handed over, or was refused: it is not tried again by this process. */
let tried: { key: string; done: Promise<void> } | undefined;

export async function adopt(adoption: Adoption, ms: number = PATIENCE_MS): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  const work = begin(adoption);
  // Whether or not a request still waits for it.
  work.catch(() => {});
  await Promise.race([work, late]).finally(() => clearTimeout(timer));
}

async function begin(adoption: Adoption): Promise<void> {
  const auth = await adoption.stored();
  if (!isBag(auth) || auth["type"] !== "api" || typeof auth["key"] !== "string" || auth["key"] === MARKER) return;
  const key = auth["key"];
  const found = adoption.find();
  if ("missing" in found) return;
  if (tried?.key !== key) tried = { key, done: hand(adoption, found.path, key) };
  await tried.done;
}

async function hand({ flags, keep, say }: Adoption, path: string, key: string): Promise<void> {
  const child = handOver(path, flags(), key);
  if ((await child.ended) !== 0) {
    say(`cannot import the key from OpenCode's store: ${child.words() || "no answer"}`);
    return;
  }
  // It may come again after a sign-out.
  tried = undefined;
  await keep(MARKER);
}
