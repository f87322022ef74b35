// The client under test: what `ibeam mcp` does with the server that the suite starts.
// Called with the scenario, and by the suite with the server's URL behind it.

import { desk } from "./lib/desk.mjs";

const [scenario, url] = process.argv.slice(2);
const actions = {
  initialize: ["mcp", "tools", "suite"],
  tools_call: ["mcp", "call", "suite", "add_numbers", '{"a":5,"b":3}'],
  "sse-retry": ["mcp", "call", "suite", "test_reconnection"],
};

const here = desk(`[mcp.servers.suite]\nurl = ${JSON.stringify(url)}\n`);
const { code, stdout, stderr } = await here.run(...actions[scenario]);
here.done();
process.stdout.write(stdout);
process.stderr.write(stderr);
process.exitCode = code;
