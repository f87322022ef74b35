// An npm registry with nothing but our packed tarballs, so that `npm install -g ibeam-gateway` is the
// user's own command, and npm itself chooses what fits this machine.

import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { promisify } from "node:util";

/** `folders` hold tarballs; `fetched` names those that were downloaded. */
export async function registry(...folders) {
  const packages = new Map();
  for (const folder of folders) {
    for (const file of readdirSync(folder).filter((name) => name.endsWith(".tgz"))) {
      const path = join(folder, file);
      const manifest = await manifestOf(path);
      packages.set(manifest.name, { manifest, file, bytes: readFileSync(path) });
    }
  }
  const fetched = [];
  const server = createServer((request, response) => {
    const [name, , file] = decodeURIComponent(request.url.slice(1)).split("/");
    const found = packages.get(name);
    if (!found || (file && file !== found.file)) return response.writeHead(404).end("{}");
    if (file) {
      fetched.push(name);
      return response.end(found.bytes);
    }
    const { manifest, bytes } = found;
    const dist = {
      tarball: `${url()}/${name}/-/${found.file}`,
      integrity: `sha512-${createHash("sha512").update(bytes).digest("base64")}`,
      shasum: createHash("sha1").update(bytes).digest("hex"),
    };
    const { version } = manifest;
    const about = { name, "dist-tags": { latest: version }, versions: { [version]: { ...manifest, dist } } };
    response.setHeader("content-type", "application/json").end(JSON.stringify(about));
  });
  const url = () => `http://127.0.0.1:${server.address().port}`;
  await new Promise((resolve, reject) => server.once("error", reject).listen(0, "127.0.0.1", resolve));
  return {
    url: url(),
    fetched,
    stop() {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}

/** The settings of a user's npm: this registry, a folder of the user's own, no calls elsewhere. */
export const settings = (url, home) => ({
  npm_config_registry: url,
  npm_config_prefix: join(home, ".npm-global"),
  npm_config_cache: join(home, ".npm"),
  npm_config_audit: "false",
  npm_config_fund: "false",
  npm_config_update_notifier: "false",
});

export async function manifestOf(tarball) {
  const { stdout } = await promisify(execFile)("tar", ["-xOzf", tarball, "package/package.json"]);
  return JSON.parse(stdout);
}
