// Stands between the client and the gateway, and keeps what passed: the client's own
// view of its requests, which no log of ours can make up.

import { createServer, request } from "node:http";

/** `seen` holds one entry for each request: `{ path, body, status, id, text }`. */
export async function tap(target) {
  const seen = [];
  const server = createServer((from, back) => {
    const parts = [];
    from.on("data", (part) => parts.push(part));
    from.on("end", () => {
      const bytes = Buffer.concat(parts);
      const entry = { path: from.url, body: parse(bytes), status: 0, id: "", text: "" };
      seen.push(entry);
      const headers = { ...from.headers, host: new URL(target).host };
      const to = request(new URL(from.url, target), { method: from.method, headers }, (answer) => {
        entry.status = answer.statusCode;
        entry.id = answer.headers["x-request-id"] ?? "";
        back.writeHead(answer.statusCode, answer.headers);
        answer.on("data", (part) => {
          entry.text += part;
          back.write(part);
        });
        answer.on("end", () => back.end());
        answer.on("error", () => back.destroy());
      });
      to.on("error", () => back.destroy());
      back.on("close", () => to.destroy());
      to.end(bytes);
    });
  });
  await new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
  return {
    seen,
    url: `http://127.0.0.1:${server.address().port}`,
    stop() {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}

function parse(bytes) {
  try {
    return JSON.parse(bytes.toString());
  } catch {
    return null;
  }
}
