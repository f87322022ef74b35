// The `fetch` that OpenCode's requests go through: the gateway's key goes on here, and a
// gateway that has ended is replaced.

import { type Connection, type Gateway, isProblem } from "./gateway.js";
import { isBag } from "./options.js";

/** The header by which a request asks for a run of its own. */
const SESSION_REUSE = "x-ibeam-session-reuse";
/** What the gateway calls it when its own key, or the account's sign-in, is missing. */
const WRONG_KEY = "invalid_api_key";
export const NOT_SIGNED_IN = "not_authenticated";
export const SIGN_IN = "not signed in to Cursor; run `opencode auth login` and choose Cursor";

export type Sender = (input: string | URL | Request, init?: RequestInit) => Promise<Response>;

export function sender(connection: Connection, sessionReuse: boolean, fetcher: typeof fetch = fetch): Sender {
  return async (input, init) => {
    const signal = init?.signal ?? (input instanceof Request ? input.signal : undefined);
    const gateway = await unlessAborted(connection.get(), signal);
    if (isProblem(gateway)) return refusal(gateway.problem);
    const once = (to: Gateway): Promise<Response> => {
      const request = address(input, to.url);
      return fetcher(request.target, { ...init, headers: headers(input, init, to, sessionReuse) });
    };
    // A body that can be read once cannot be sent twice.
    const repeatable = !(input instanceof Request) && (init?.body == null || typeof init.body === "string");
    let answer: Response;
    try {
      answer = await once(gateway);
    } catch (error) {
      if (!repeatable || !isRefused(error)) throw error;
      return again(await connection.renew(gateway), once);
    }
    if (answer.status !== 401) return answer;
    const code = await codeOf(answer);
    if (code === NOT_SIGNED_IN) return refusal(SIGN_IN, 401);
    // The gateway refused the key, before anything went to Cursor.
    return code === WRONG_KEY && repeatable ? again(await connection.renew(gateway), once) : answer;
  };
}

async function again(
  gateway: Awaited<ReturnType<Connection["get"]>>,
  once: (gateway: Gateway) => Promise<Response>,
): Promise<Response> {
  return isProblem(gateway) ? refusal(gateway.problem) : once(gateway);
}

/** The same path at the gateway that there is now. */
function address(input: string | URL | Request, base: string): { target: string | Request } {
  const url = new URL(input instanceof Request ? input.url : input);
  const target = `${base}${url.pathname}${url.search}`;
  return { target: input instanceof Request ? new Request(target, input) : target };
}

function headers(input: string | URL | Request, init: RequestInit | undefined, to: Gateway, sessionReuse: boolean): Headers {
  const all = new Headers(init?.headers ?? (input instanceof Request ? input.headers : undefined));
  all.set("authorization", `Bearer ${to.key}`);
  all.delete("x-api-key");
  if (!sessionReuse) all.set(SESSION_REUSE, "off");
  return all;
}

/** Nothing listens there: no byte of the request was taken. Node and Bun say it differently. */
export function isRefused(error: unknown): boolean {
  for (let at: unknown = error, depth = 0; isError(at) && depth < 4; at = at.cause, depth++) {
    if (at.code === "ECONNREFUSED" || at.code === "ConnectionRefused") return true;
  }
  return false;
}

const isError = (value: unknown): value is { code?: unknown; cause?: unknown } =>
  typeof value === "object" && value !== null;

/** The name of what went wrong; the answer can still be read. */
async function codeOf(answer: Response): Promise<unknown> {
  try {
    const body: unknown = await answer.clone().json();
    return isBag(body) && isBag(body["error"]) ? body["error"]["code"] : undefined;
  } catch {
    return undefined;
  }
}

/** A gateway may take long to start; who gives up does not wait for it. */
function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | null | undefined): Promise<T> {
  if (!signal) return work;
  return new Promise((resolve, reject) => {
    const abort = (): void => reject(signal.reason);
    if (signal.aborted) return abort();
    signal.addEventListener("abort", abort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}

/** In the shape of the API, so that OpenCode shows the words. A retry cannot help. */
function refusal(message: string, status = 400): Response {
  const error = { message: `ibeam: ${message}`, type: "invalid_request_error", code: "ibeam_unavailable", param: null };
  return Response.json({ error }, { status, headers: { "x-should-retry": "false" } });
}
