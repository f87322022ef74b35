// `ibeam setup` before a client's work, and `ibeam undo` after it.

import assert from "node:assert/strict";
import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { start } from "./group.mjs";

const ibeam = process.env.IBEAM_BIN;
/** Where ibeam keeps what it needs for the undo. */
const OWN = ".local/state/ibeam/";

/**
 * The `launch` of a client that is wired by a command. `there` are files that its user has
 * already, `changed` the files that the command makes or edits, and `run` gives what
 * `launch` does. All paths are those below the home.
 */
export const bySetup = (name, { there = {}, changed, run }) =>
  async (order) => {
    const { home, url } = order;
    for (const [path, text] of Object.entries(there)) {
      mkdirSync(dirname(join(home, path)), { recursive: true });
      writeFileSync(join(home, path), text);
    }
    const before = look(home);
    const setup = () => command(home, ["setup", name, "--yes", "--no-verify", "--url", url]);
    await setup();
    const after = look(home);
    const differs = [...after.keys()].filter((path) => after.get(path) !== before.get(path));
    assert.deepEqual(differs.sort(), [...changed].sort());
    for (const [path, text] of Object.entries(there)) {
      const now = readFileSync(join(home, path), "utf8");
      for (const line of text.split("\n")) assert.ok(now.includes(line.replace(/,$/, "")), now);
    }
    await setup();
    assert.deepEqual(look(home), after, "a second setup changes nothing");
    const finish = async () => {
      await command(home, ["undo", name, "--yes"]);
      const end = look(home);
      for (const path of changed) assert.equal(end.get(path), before.get(path), `${path} is not as before`);
    };
    return { ...run(order), finish };
  };

/** Every file below a folder, with its mode and its bytes. */
function look(home) {
  const files = readdirSync(home, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
  const seen = files.map((path) => {
    const mode = (statSync(path).mode & 0o777).toString(8);
    return [relative(home, path), `${mode} ${readFileSync(path, "base64")}`];
  });
  return new Map(seen.filter(([path]) => !path.startsWith(OWN)));
}

async function command(home, args) {
  const child = start(ibeam, args, { cwd: home, env: { PATH: process.env.PATH, HOME: home } });
  const { code } = await child.ended;
  assert.equal(code, 0, `ibeam ${args.join(" ")}\n${child.out()}${child.err()}`);
}
