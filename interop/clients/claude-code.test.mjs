// Claude Code: Messages. It repeats a request without streaming when a stream is not to its
// liking, and says nothing of it; the frame counts requests and looks at `stream`.

import { messages } from "./lib/apis.mjs";
import { does, doesNatively, program } from "./lib/work.mjs";

const client = (tools) => ({
  api: messages,
  tools,
  launch: ({ url, text }) => ({
    line: [program("claude"), "-p", text, "--model", "claude-sonnet-4-5", "--dangerously-skip-permissions"],
    env: {
      ANTHROPIC_BASE_URL: url,
      ANTHROPIC_API_KEY: "ibeam",
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      DISABLE_AUTOUPDATER: "1",
      DISABLE_TELEMETRY: "1",
      DISABLE_ERROR_REPORTING: "1",
      // Root may skip permissions only where it says that nothing can be lost.
      IS_SANDBOX: "1",
    },
  }),
});

does("with its tools", client(["Read", "Edit", "Write", "Bash"]));
// Cursor edits by reading the file and writing it.
doesNatively("with its tools", client(["Read", "Read", "Write", "Write", "Bash"]));
