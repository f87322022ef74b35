// Messages for the user, each once: in OpenCode's log and, where it has a window, in a
// corner of it. Without a window, on stderr.

import type { PluginInput } from "@opencode-ai/plugin";

export type Client = Pick<PluginInput["client"], "app" | "tui">;

const PATIENCE_MS = 2_000;

export function teller(client: Client | undefined, stderr: (text: string) => void = toStderr): (text: string) => void {
  const shown = new Set<string>();
  return (text) => {
    if (shown.has(text)) return;
    shown.add(text);
    const message = `ibeam: ${text}`;
    // A window owns the screen; a line on stderr would be drawn across it.
    if (!hasWindow()) stderr(message);
    quietly(() => client?.app.log({ body: { service: "ibeam", level: "warn", message } }));
    quietly(() => client?.tui.showToast({ body: { message, variant: "warning" } }));
  };
}

/** OpenCode's window runs its server in a worker, or says so. */
function hasWindow(): boolean {
  const command = process.argv.slice(2).find((part) => !part.startsWith("-"));
  const wordy = ["run", "models", "auth", "providers", "serve", "web", "debug", "agent", "mcp", "stats", "export", "import", "github", "pr", "session"];
  return command === undefined || !wordy.includes(command);
}

/** Not waited for: the server may itself be waiting for the plugin. */
function quietly(act: () => unknown): void {
  const timer = setTimeout(() => {
    try {
      Promise.resolve(act()).catch(() => {});
    } catch {
      return;
    }
  }, PATIENCE_MS);
  timer.unref?.();
}

function toStderr(text: string): void {
  process.stderr.write(`${text}\n`);
}
