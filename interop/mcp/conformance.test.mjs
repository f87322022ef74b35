// The protocol's own test of clients, with `ibeam mcp` as the client. Its other scenarios are
// about signing in with OAuth and about asking the user, which ibeam does not do.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

import { binary, modules } from "./lib/desk.mjs";

// The suite needs a newer Node than the rest.
const node = join(modules, "node", "bin", "node");
const suite = join(modules, "@modelcontextprotocol", "conformance", "dist", "index.js");
const client = join(modules, "..", "client.mjs");

for (const scenario of ["initialize", "tools_call", "sse-retry"]) {
  test(`conformance: ${scenario}`, async (t) => {
    const folder = mkdtempSync(join(tmpdir(), "ibeam-conformance-"));
    t.after(() => rmSync(folder, { recursive: true, force: true }));
    const command = `${process.execPath} ${client} ${scenario}`;
    const args = [suite, "client", "--command", command, "--scenario", scenario];
    const env = { PATH: process.env.PATH, HOME: folder, IBEAM_BIN: binary() };
    const { code, output } = await new Promise((resolve) => {
      execFile(node, args, { cwd: folder, env, timeout: 60_000 }, (error, stdout, stderr) => {
        resolve({ code: error ? error.code : 0, output: `${stdout}\n${stderr}` });
      });
    });
    assert.equal(code, 0, output);
    assert.match(output, /Passed: [1-9]/, output);
    assert.doesNotMatch(output, /[1-9]\d* failed/, output);
  });
}
