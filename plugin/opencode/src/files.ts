// Files of others: a pipe would be waited for without end, and a huge one fill the memory.

import { readFile, stat } from "node:fs/promises";

/** The text of a plain file of at most so many bytes. */
export async function readSmall(path: string, cap: number): Promise<string | undefined> {
  const found = await stat(path);
  return found.isFile() && found.size <= cap ? readFile(path, "utf8") : undefined;
}
