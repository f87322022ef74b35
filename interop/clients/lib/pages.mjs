// The pages of `docs/clients`, as people use them: what they say to put into a file, to
// export or to run. Only the address is another one.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

const docs = process.env.IBEAM_DOCS;
const ADDRESS = "http://127.0.0.1:18741";

/** The blocks of a page that have a word behind their language: `{ kind, value, text }`. */
export function blocks(page) {
  const text = readFileSync(join(docs, `${page}.md`), "utf8");
  return [...text.matchAll(/^```\w+ (\w+)(?:=(\S+))?\n(.*?)^```$/gms)].map(
    ([, kind, value, text]) => ({ kind, value, text }),
  );
}

/** Writes the files of a page into a home; gives what their lines `export`. */
export function follow(page, home, url) {
  const files = blocks(page).filter(({ kind }) => kind === "file");
  assert.ok(files.length > 0, `${page} has no file`);
  const env = {};
  for (const { value, text } of files) {
    assert.match(value, /^~\//, page);
    const path = join(home, value.slice(2));
    mkdirSync(dirname(path), { recursive: true });
    const here = text.replaceAll(ADDRESS, url);
    writeFileSync(path, here);
    for (const [, name, content] of here.matchAll(/^export (\w+)='([^']*)'$/gm)) env[name] = content;
  }
  assert.ok(files.some(({ text }) => text.includes(ADDRESS)), `${page} does not say ${ADDRESS}`);
  return env;
}

/** The programs of a page: `{ name, text }`. */
export function programs(page) {
  return blocks(page)
    .filter(({ kind }) => kind === "run")
    .map(({ value, text }) => ({ name: value, text }));
}
