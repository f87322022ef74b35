// The public proxy `opencode-cursor-oauth`, in front of a given backend.

import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { start } from "./ibeam.mjs";

const here = join(dirname(fileURLToPath(import.meta.url)), "..");

export async function startPeer(backend, accessToken) {
  let port;
  const child = await start(
    join(here, "node_modules/.bin/bun"),
    ["run", join(here, "opencode-cursor-oauth/proxy.mjs")],
    { CURSOR_API_URL: backend, PEER_TOKEN: accessToken },
    async (output) => {
      port = output().match(/^PORT (\d+)$/m)?.[1];
      return Boolean(port);
    },
  );
  return { ...child, url: `http://127.0.0.1:${port}`, baseURL: `http://127.0.0.1:${port}/v1` };
}
