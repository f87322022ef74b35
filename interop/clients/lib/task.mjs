// A small piece of work for a coding agent, never twice the same: names, contents and
// wording are drawn anew, so that nothing on the way can have been made for it. What the
// answer must quote is nowhere in the words of the task.

import { createHash, randomBytes, randomInt } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const word = (length = 8) =>
  Array.from({ length }, () => "abcdefghijkmnopqrstuvwxyz"[randomInt(25)]).join("");
const one = (...list) => list[randomInt(list.length)];

/**
 * Lays out the folder and says what is wanted; `wrong` looks at what became of it.
 * `shell: false` for clients that run no commands; `lines: true` for those that write
 * whole lines only, so that a new file ends with a line break.
 */
export function task(folder, { shell = true, lines: whole = false } = {}) {
  const inside = one("", `${word(5)}/`);
  if (inside) mkdirSync(join(folder, inside));
  const [notes, fresh, proof] = ["notes", "fresh", "proof"].map((kind) => `${inside}${kind}-${word()}.txt`);
  const [old, wanted, secret, content] = [word(10), word(10), randomBytes(9).toString("hex"), word(24)];
  const lines = [`first ${word()}`, `the word is ${old} here`, `secret ${secret}`, `last ${word()}`];
  writeFileSync(join(folder, notes), `${lines.join("\n")}\n`);
  const after = `${lines.join("\n").replace(old, wanted)}\n`;
  const digest = createHash("sha256").update(after).digest("hex");

  const wishes = [
    one(`read \`${notes}\``, `show me the file \`${notes}\``, `open the file \`${notes}\``),
    one(
      `replace \`${old}\` with \`${wanted}\` in \`${notes}\``,
      `change \`${old}\` to \`${wanted}\` in \`${notes}\``,
    ),
    one(`write \`${content}\` to \`${fresh}\``, `create the file \`${fresh}\` with \`${content}\``),
  ];
  if (shell) wishes.push(one("run", "execute") + ` \`sha256sum ${notes} | tee ${proof}\``);
  const text = one("Please ", "", "In this folder: ") + wishes.join(one(", then ", ". Then ", ", and then "));
  const expected = { [notes]: after, [fresh]: whole ? `${content}\n` : content };
  if (shell) expected[proof] = `${digest}  ${notes}\n`;

  return {
    text,
    /** The file that is there from the start. */
    notes,
    names: Object.keys(expected).map((path) => path.slice(inside.length)),
    /** What only the files and the command can tell. */
    told: shell ? [secret, digest] : [secret],
    /** What is wrong with the files, if anything. */
    wrong() {
      return Object.entries(expected).flatMap(([path, want]) => {
        let is;
        try {
          is = readFileSync(join(folder, path), "utf8");
        } catch (error) {
          is = String(error.code);
        }
        return is === want ? [] : [`${path} holds ${JSON.stringify(is)}, not ${JSON.stringify(want)}`];
      });
    },
  };
}
