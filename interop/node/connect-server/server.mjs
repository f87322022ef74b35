// An independent backend: `agent.v1.AgentService` on `@connectrpc/connect-node`,
// HTTP/2 and HTTP/1.1 on one cleartext port, gzip for every message the client
// lets it compress. It plays the turn that the user's words name, and keeps a
// report of each run.

import { create } from "@bufbuild/protobuf";
import { Code, ConnectError } from "@connectrpc/connect";
import { compressionGzip, connectNodeAdapter } from "@connectrpc/connect-node";
import { createServer as createHttp1 } from "node:http";
import { createServer as createHttp2 } from "node:http2";
import { connect, createServer } from "node:net";
import { Report, headers, runRequest, unknownFields } from "./check.mjs";
import { schema, service } from "./schema.mjs";
import { Turn } from "./turn.mjs";
import { scenarios } from "./scenarios.mjs";

export const MODELS = ["default", "composer-1", "gpt-5.2", "claude-4.5-sonnet"];

/** What the client sent so far, in order; heartbeats are only counted. */
class Inbox {
  heartbeats = 0;
  #waiting = [];
  #ready = [];
  #ended = false;

  constructor(requests, report) {
    this.done = this.#pump(requests, report);
  }

  async #pump(requests, report) {
    try {
      for await (const message of requests) {
        for (const field of unknownFields(schema("AgentClientMessage"), message)) {
          report.expect(false, `unknown field ${field}`);
        }
        if (!report.expect(message.message.case, "a message without an arm")) continue;
        if (message.message.case === "clientHeartbeat") this.heartbeats += 1;
        else this.#push(message.message);
      }
    } catch (error) {
      this.failure = error;
    }
    this.#ended = true;
    for (const waiter of this.#waiting.splice(0)) waiter(undefined);
  }

  #push(message) {
    const waiter = this.#waiting.shift();
    if (waiter) waiter(message);
    else this.#ready.push(message);
  }

  /** The next message, undefined when the client has gone, null when it is late. */
  next(limit = 10_000) {
    if (this.#ready.length > 0) return Promise.resolve(this.#ready.shift());
    if (this.#ended) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      const waiter = (message) => {
        clearTimeout(timer);
        resolve(message);
      };
      const timer = setTimeout(() => {
        this.#waiting.splice(this.#waiting.indexOf(waiter), 1);
        resolve(null);
      }, limit);
      this.#waiting.push(waiter);
    });
  }
}

export async function startServer(token) {
  const reports = [];
  const unary = [];

  function guard(context, path) {
    unary.push(path);
    if (context.requestHeader.get("authorization") !== `Bearer ${token}`) {
      throw new ConnectError("wrong token", Code.Unauthenticated);
    }
  }

  async function* run(requests, context) {
    const report = new Report();
    reports.push(report);
    headers(report, context.requestHeader, token);
    context.signal.addEventListener("abort", () => {
      report.facts.aborted = true;
    });
    const inbox = new Inbox(requests, report);
    const first = await inbox.next();
    if (!report.expect(first?.case === "runRequest", `the first message is a run request, got ${first?.case}`)) {
      throw new ConnectError("run_request expected", Code.InvalidArgument);
    }
    const request = first.value;
    const refs = runRequest(report, request, MODELS);
    report.refs = [...refs.keys()];
    const text = request.action?.action?.value?.userMessage?.text ?? "";
    const name = text.match(/scenario: ([a-z-]+)/)?.[1];
    report.scenario = name;
    const scenario = scenarios[name];
    if (!scenario) throw new ConnectError(`no scenario in ${JSON.stringify(text)}`, Code.InvalidArgument);
    const turn = new Turn({ report, inbox, request, refs, signal: context.signal });
    try {
      yield* scenario(turn);
      report.facts.finished = true;
    } finally {
      report.facts.heartbeats = inbox.heartbeats;
    }
  }

  const handler = connectNodeAdapter({
    acceptCompression: [compressionGzip],
    compressMinBytes: 0,
    routes(router) {
      router.service(service("agent.v1.AgentService"), {
        run,
        getUsableModels(_request, context) {
          guard(context, "GetUsableModels");
          return create(schema("GetUsableModelsResponse"), {
            models: MODELS.map((modelId) => ({
              modelId,
              displayModelId: modelId,
              displayName: modelId.toUpperCase(),
              displayNameShort: modelId,
              aliases: modelId === "default" ? ["auto"] : [],
            })),
          });
        },
        getDefaultModelForCli(_request, context) {
          guard(context, "GetDefaultModelForCli");
          return create(schema("GetDefaultModelForCliResponse"), { model: { modelId: "default" } });
        },
        getServerConfig(_request, context) {
          guard(context, "GetServerConfig");
          return create(schema("GetServerConfigResponse"), { http2Config: 2 });
        },
      });
      router.service(service("aiserver.v1.AiService"), {
        availableModels(request, context) {
          guard(context, "AvailableModels");
          const unknown = unknownFields(schema("aiserver.v1.AvailableModelsRequest"), request);
          if (unknown.length > 0) throw new ConnectError(`unknown ${unknown}`, Code.InvalidArgument);
          return create(schema("aiserver.v1.AvailableModelsResponse"), {
            modelNames: MODELS,
            models: MODELS.map((name) => ({
              name,
              defaultOn: true,
              supportsAgent: true,
              supportsThinking: name !== "composer-1",
              supportsImages: true,
              contextTokenLimit: 200_000,
              clientDisplayName: name.toUpperCase(),
              serverModelName: name,
              supportsNonMaxMode: true,
            })),
          });
        },
      });
      router.service(service("aiserver.v1.ServerConfigService"), {
        getServerConfig(_request, context) {
          guard(context, "ServerConfigService/GetServerConfig");
          return create(schema("aiserver.v1.GetServerConfigResponse"), { http2Config: 2 });
        },
      });
    },
  });

  const http1 = createHttp1(handler);
  const http2 = createHttp2(handler);
  for (const server of [http1, http2]) await listen(server);
  const front = createServer((socket) => route(socket, http1.address().port, http2.address().port));
  await listen(front);

  return {
    url: `http://127.0.0.1:${front.address().port}`,
    reports,
    unary,
    stop() {
      for (const server of [front, http1, http2]) server.close();
    },
  };
}

function listen(server) {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", resolve);
  });
}

/** The real service speaks both versions; without TLS the first bytes tell which. */
function route(socket, http1, http2) {
  socket.on("error", () => socket.destroy());
  socket.once("data", (first) => {
    const inner = connect(first.toString("latin1", 0, 3) === "PRI" ? http2 : http1, "127.0.0.1");
    inner.setNoDelay(true);
    socket.setNoDelay(true);
    inner.on("error", () => socket.destroy());
    inner.on("close", () => socket.destroy());
    socket.on("close", () => inner.destroy());
    inner.write(first);
    socket.pipe(inner).pipe(socket);
  });
}
