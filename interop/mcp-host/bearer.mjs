// Loaded before the conformance test, which cannot send a bearer: adds ours to every request.

import { Agent, setGlobalDispatcher } from "undici";

const authorization = `Bearer ${process.env.MCP_BEARER}`;

/** Headers come as a flat list, as pairs, or as an object. */
function withBearer(headers) {
  if (Array.isArray(headers)) return [...headers, "authorization", authorization];
  const pairs = typeof headers?.[Symbol.iterator] === "function" ? headers : Object.entries(headers ?? {});
  return { ...Object.fromEntries(pairs), authorization };
}

setGlobalDispatcher(
  new Agent().compose((dispatch) => (options, handler) =>
    dispatch({ ...options, headers: withBearer(options.headers) }, handler),
  ),
);
