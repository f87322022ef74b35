// Stands between the client and the gateway, and keeps what passed: the client's own
// view of its requests, which no log of ours can make up.

import { createServer, request } from "node:http";
import { texts } from "./frames.mjs";

/**
 * `seen` holds one entry for each request: `{ method, path, body, status, id, text }`. A
 * message of a WebSocket is a request too, and what comes back is written down as events.
 */
export async function tap(target) {
  const seen = [];
  const lines = new Set();
  const note = (from, body) => {
    const [path] = from.url.split("?");
    const entry = { method: from.method, path, body, status: 0, id: "", text: "" };
    seen.push(entry);
    return entry;
  };
  const pass = (from) => {
    const headers = { ...from.headers, host: new URL(target).host };
    return request(new URL(from.url, target), { method: from.method, headers });
  };

  const server = createServer((from, back) => {
    const parts = [];
    from.on("data", (part) => parts.push(part));
    from.on("end", () => {
      const bytes = Buffer.concat(parts);
      const entry = note(from, parse(bytes));
      const to = pass(from);
      to.on("response", (answer) => {
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

  server.on("upgrade", (from, near) => {
    // Compressed messages could not be read here.
    delete from.headers["sec-websocket-extensions"];
    const to = pass(from);
    to.on("upgrade", (answer, far) => {
      near.write(head(answer));
      let entry = null;
      // The messages of a connection have no id of their own.
      const asked = texts((text) => (entry = Object.assign(note(from, parse(text)), { id: null })));
      const answered = texts((text) => {
        if (entry) Object.assign(entry, { status: 200, text: `${entry.text}data: ${text}\n\n` });
      });
      join(near, far, asked);
      join(far, near, answered);
    });
    to.on("response", (answer) => {
      note(from, null).status = answer.statusCode;
      near.write(head(answer));
      answer.pipe(near);
    });
    to.on("error", () => near.destroy());
    to.end();
  });

  /** Passes bytes on, and reads along; when one side ends, so does the other. */
  function join(from, to, read) {
    lines.add(from);
    from.on("data", (bytes) => {
      read(bytes);
      to.write(bytes);
    });
    from.on("error", () => to.destroy());
    from.on("close", () => {
      lines.delete(from);
      to.destroy();
    });
    from.on("end", () => to.end());
  }

  await new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
  return {
    seen,
    url: `http://127.0.0.1:${server.address().port}`,
    stop() {
      for (const line of lines) line.destroy();
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}

/** The first lines of an answer, as they came. */
function head(answer) {
  const { statusCode, statusMessage, rawHeaders } = answer;
  const lines = [`HTTP/1.1 ${statusCode} ${statusMessage}`];
  for (let at = 0; at < rawHeaders.length; at += 2) lines.push(`${rawHeaders[at]}: ${rawHeaders[at + 1]}`);
  return `${lines.join("\r\n")}\r\n\r\n`;
}

function parse(bytes) {
  try {
    return JSON.parse(bytes.toString());
  } catch {
    return null;
  }
}
