// A small piece of work with files, never twice the same: names, contents and wording are
// drawn anew, and what the answer must quote is nowhere in the words of the task.

import assert from "node:assert/strict";
import { randomBytes, randomInt } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";

const word = (length = 8) =>
  Array.from({ length }, () => "abcdefghijkmnopqrstuvwxyz"[randomInt(25)]).join("");
const one = (...list) => list[randomInt(list.length)];

const schema = (...names) => ({
  type: "object",
  properties: Object.fromEntries(names.map((name) => [name, { type: "string" }])),
  required: names,
  additionalProperties: false,
});

/** The tools that a client may do it with. */
export const TOOLS = [
  { name: "read_file", description: "Reads a file", parameters: schema("path") },
  { name: "edit_file", description: "Replaces a text in a file", parameters: schema("path", "old_string", "new_string") },
  { name: "write_file", description: "Writes a file", parameters: schema("path", "content") },
];
const STEPS = TOOLS.map((tool) => tool.name);
/** Cursor edits by reading the file and writing it. */
export const NATIVE_STEPS = ["read_file", "read_file", "write_file", "write_file"];

/** How the simulator answers the "count in words" of `interop/sdks.toml`. */
export const NUMBERS = "one two three four five six seven eight nine ten eleven twelve";

/** A folder and what is wanted in it; `run` is what the client does when the model asks. */
function task() {
  const room = mkdtempSync(join(tmpdir(), "ibeam-task-"));
  // Cursor's own tools ask for whole paths in the folder that the client works in.
  const inside = (path) => join(room, basename(path));
  const read = (path) => readFileSync(inside(path), "utf8");
  const write = (path, text) => writeFileSync(inside(path), text);

  const [notes, fresh] = [`notes-${word()}.txt`, `fresh-${word()}.txt`];
  const [old, wanted, secret, content] = [word(10), word(10), randomBytes(9).toString("hex"), word(24)];
  const before = `first ${word()}\nthe word is ${old} here\nsecret ${secret}\n`;
  write(notes, before);
  const wishes = [
    one(`read \`${notes}\``, `show me the file \`${notes}\``),
    one(
      `replace \`${old}\` with \`${wanted}\` in \`${notes}\``,
      `change \`${old}\` to \`${wanted}\` in \`${notes}\``,
    ),
    one(`write \`${content}\` to \`${fresh}\``, `create the file \`${fresh}\` with \`${content}\``),
  ];
  const used = [];
  const doing = {
    read_file: ({ path }) => read(path),
    edit_file: ({ path, old_string, new_string }) => {
      write(path, read(path).replaceAll(old_string, new_string));
      return "edited";
    },
    write_file: ({ path, content: text }) => {
      write(path, text);
      return "written";
    },
  };
  return {
    text: one("Please ", "", "In this folder: ") + wishes.join(one(", then ", ". Then ", ", and then ")),
    used,
    run(name, args) {
      used.push(name);
      return doing[name](args);
    },
    check(steps, answer) {
      assert.equal(read(notes), before.replace(old, wanted), this.text);
      assert.equal(read(fresh), content, this.text);
      assert.deepEqual(used, steps, this.text);
      assert.ok(answer.includes(secret), `the answer does not know what only the file could tell: ${answer}`);
    },
    close: () => rmSync(room, { recursive: true, force: true }),
  };
}

/** Does a task by `work`, which answers with the model's last words, in one upstream run. */
export async function chain(server, work, steps = STEPS) {
  const wanted = task();
  try {
    const before = await server.opened();
    wanted.check(steps, await work(wanted));
    assert.equal((await server.opened()) - before, 1, "upstream runs of one tool chain");
  } finally {
    wanted.close();
  }
}

/** What is refused must not have reached the model. */
export async function nothingUpstream(server, work) {
  const before = await server.opened();
  await work();
  assert.equal((await server.opened()) - before, 0, "upstream runs of a request that was refused");
}
