// Generated from plugin/opencode by 'cargo xtask plugin'. Do not edit.

// dist/options.js
var FLAGS = 64;
function isBag(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
function readOptions(...bags) {
  const all = Object.assign({}, ...bags.filter(isBag));
  const complaints = [];
  function take(name, fits, wanted) {
    const value = all[name];
    if (value === void 0 || value === null)
      return void 0;
    if (fits(value))
      return value;
    complaints.push(`the option \`${name}\` must be ${wanted}; it is ignored`);
    return void 0;
  }
  const options = {
    bin: take("bin", isText, "a path"),
    args: take("args", isFlags, "a list of flags for `ibeam start`") ?? [],
    sessionReuse: take("sessionReuse", isFlag, "true or false") ?? true,
    cacheModels: take("cacheModels", isFlag, "true or false") ?? true,
    timeout: take("timeout", isSpan, "a number of milliseconds")
  };
  return { options, complaints };
}
var isText = (value) => typeof value === "string" && value.trim() !== "";
var isFlags = (value) => Array.isArray(value) && value.length <= FLAGS && value.every((part) => typeof part === "string");
var isFlag = (value) => typeof value === "boolean";
var isSpan = (value) => typeof value === "number" && Number.isFinite(value) && value > 0 && value <= 2147483647;

// dist/child.js
import { spawn } from "node:child_process";
var OUT_CAP = 1e6;
var ERR_CAP = 8e3;
function run(program, args, ms, input) {
  const lines = [];
  let rest = "";
  let size = 0;
  let err = "";
  let over = false;
  let wake = () => {
  };
  let child;
  const stop = () => {
    if (!over)
      child?.kill("SIGKILL");
  };
  const timer = setTimeout(stop, ms);
  timer.unref?.();
  const ended = new Promise((resolve2) => {
    const finish = (code) => {
      over = true;
      clearTimeout(timer);
      wake();
      resolve2(code);
    };
    try {
      const { IBEAM_BIN: _, ...env } = process.env;
      child = spawn(program, args, { env, stdio: [input === void 0 ? "ignore" : "pipe", "pipe", "pipe"], windowsHide: true });
    } catch (error) {
      err = String(error);
      finish(null);
      return;
    }
    child.once("error", (error) => {
      err += String(error.message);
      finish(null);
    });
    child.once("close", (code) => finish(code));
    child.stdout?.setEncoding("utf8").on("data", (text) => {
      size += text.length;
      if (size > OUT_CAP)
        return stop();
      const parts = (rest + text).split("\n");
      rest = parts.pop() ?? "";
      lines.push(...parts);
      wake();
    });
    child.stderr?.setEncoding("utf8").on("data", (text) => {
      err = (err + text).slice(-ERR_CAP);
    });
    child.stdin?.on("error", () => {
    });
    child.stdin?.end(input);
  });
  const line = async (limit) => {
    const deadline = Date.now() + limit;
    for (; ; ) {
      const next = lines.shift();
      if (next !== void 0)
        return next;
      const left = deadline - Date.now();
      if (over || left <= 0)
        return void 0;
      await new Promise((resolve2) => {
        const bell = setTimeout(resolve2, left);
        wake = () => {
          clearTimeout(bell);
          resolve2();
        };
      });
    }
  };
  return { line, ended, words: () => oneLine(err), stop };
}
function oneLine(text) {
  const plain2 = text.replace(/\u001b\[[0-9;]*m/g, "");
  const lines = plain2.split("\n").map((part) => part.trim()).filter(Boolean);
  const error = lines.find((part) => part.startsWith("error:")) ?? lines[0] ?? "";
  const hint = lines.find((part) => part.startsWith("hint:"));
  const words = [error.replace(/^error:\s*/, ""), hint?.replace(/^hint:\s*/, "")].filter(Boolean).join("; ");
  return words.slice(0, 300);
}

// dist/signin.js
var MARKER = "ibeam";
var LINK_MS = 2e4;
var LOGIN_MS = 25 * 6e4;
var KEY_MS = 9e4;
var KEYS_PAGE = "https://cursor.com/dashboard";
var waiting = /* @__PURE__ */ new Set();
process.once("exit", () => waiting.forEach((child) => child.stop()));
function methods(find, flags, say) {
  return [
    { type: "oauth", label: "Sign in with Cursor", authorize: () => withBrowser(find, flags(), say) },
    {
      // As `type: "api"` OpenCode would keep the key itself, and show it to no plugin.
      type: "oauth",
      label: "Cursor API key",
      prompts: [
        {
          type: "text",
          key: "key",
          message: `API key (from ${KEYS_PAGE})`,
          placeholder: "crsr_\u2026",
          validate: (value) => value.trim() ? void 0 : "Required"
        }
      ],
      authorize: (inputs) => withKey(find, flags(), say, inputs?.["key"] ?? "")
    }
  ];
}
async function withBrowser(find, flags, say) {
  const found = find();
  if ("missing" in found)
    return failed(found.missing, say);
  const child = run(found.path, ["login", "--no-browser", "--json", ...forLogin(flags)], LOGIN_MS);
  waiting.add(child);
  void child.ended.then(() => waiting.delete(child));
  const link = readLink(await child.line(LINK_MS));
  if (!link) {
    child.stop();
    return failed(`\`ibeam login\` did not print a link: ${child.words() || "no answer"}`, say);
  }
  return {
    url: link,
    instructions: "Open the link in a browser, on any device, and sign in to Cursor there.",
    method: "auto",
    callback: () => outcome(child, say)
  };
}
async function withKey(find, flags, say, key) {
  const found = find();
  if ("missing" in found)
    return failed(found.missing, say);
  const { path } = found;
  return {
    url: "",
    instructions: "ibeam stores the key; OpenCode does not.",
    method: "auto",
    callback: () => outcome(handOver(path, flags, key), say)
  };
}
function forLogin(flags) {
  const names = ["--profile", "--config", "--set"];
  return flags.filter((flag, at) => names.includes(flag.split("=")[0] ?? "") || names.includes(flags[at - 1] ?? ""));
}
function handOver(path, flags, key) {
  return run(path, ["login", "--api-key-stdin", ...forLogin(flags)], KEY_MS, `${key.trim()}
`);
}
async function outcome(child, say) {
  const code = await child.ended;
  if (code === 0)
    return { type: "success", key: MARKER };
  say(`signing in failed: ${child.words() || "it timed out"}`);
  return { type: "failed" };
}
function failed(why, say) {
  say(why);
  return { url: "", instructions: `ibeam: ${why}`, method: "auto", callback: async () => ({ type: "failed" }) };
}
function readLink(line) {
  try {
    const value = JSON.parse(line ?? "");
    if (!isBag(value) || value["event"] !== "link" || typeof value["url"] !== "string")
      return void 0;
    return /^https?:$/.test(new URL(value["url"]).protocol) ? value["url"] : void 0;
  } catch {
    return void 0;
  }
}

// dist/adopt.js
var PATIENCE_MS = 5e3;
var tried;
async function adopt(adoption, ms = PATIENCE_MS) {
  let timer;
  const late = new Promise((resolve2) => {
    timer = setTimeout(resolve2, ms);
  });
  const work = begin(adoption);
  work.catch(() => {
  });
  await Promise.race([work, late]).finally(() => clearTimeout(timer));
}
async function begin(adoption) {
  const auth = await adoption.stored();
  if (!isBag(auth) || auth["type"] !== "api" || typeof auth["key"] !== "string" || auth["key"] === MARKER)
    return;
  const key = auth["key"];
  const found = adoption.find();
  if ("missing" in found)
    return;
  if (tried?.key !== key)
    tried = { key, done: hand(adoption, found.path, key) };
  await tried.done;
}
async function hand({ flags, keep, say }, path, key) {
  const child = handOver(path, flags(), key);
  if (await child.ended !== 0) {
    say(`cannot import the key from OpenCode's store: ${child.words() || "no answer"}`);
    return;
  }
  tried = void 0;
  await keep(MARKER);
}

// dist/binary.js
import { accessSync, constants, existsSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { homedir } from "node:os";
import { delimiter, isAbsolute, join, resolve } from "node:path";
var INSTALL = "install ibeam, or set the option `bin` or IBEAM_BIN to its path";
function findBinary(bin, here = surroundings()) {
  const named = [
    ["the option `bin`", bin],
    ["IBEAM_BIN", here.env["IBEAM_BIN"]]
  ];
  for (const [place, value] of named) {
    if (!value)
      continue;
    const path = expand(value, here.home);
    const found2 = /[\\/]/.test(value) || isAbsolute(value) ? runs(path) : inPath(value, here);
    return found2 ? { path: found2 } : { missing: `${place} names ${value}, which is not a program` };
  }
  const name = here.platform === "win32" ? "ibeam.exe" : "ibeam";
  for (const folder of platformPackages(here)) {
    const path = here.packaged(`${folder}/bin/${name}`);
    if (path && runs(path))
      return { path };
  }
  const found = inPath(name, here);
  return found ? { path: found } : { missing: `the program \`ibeam\` is not installed: ${INSTALL}` };
}
function platformPackages(here) {
  const base = `ibeam-${here.platform}-${here.arch}`;
  if (here.platform !== "linux")
    return [base];
  return here.musl ? [`${base}-musl`] : [base, `${base}-musl`];
}
function inPath(name, here) {
  const folders = (here.env["PATH"] ?? here.env["Path"] ?? "").split(delimiter);
  for (const folder of folders) {
    if (!folder || !isAbsolute(folder))
      continue;
    const path = runs(join(folder, name));
    if (path)
      return path;
  }
  return void 0;
}
function runs(path) {
  try {
    if (!statSync(path).isFile())
      return void 0;
    accessSync(path, constants.X_OK);
    return path;
  } catch {
    return void 0;
  }
}
var expand = (path, home) => path.startsWith("~/") ? join(home, path.slice(2)) : resolve(path);
function surroundings() {
  const require2 = createRequire(import.meta.url);
  return {
    env: process.env,
    platform: process.platform,
    arch: process.arch,
    home: homedir(),
    musl: process.platform === "linux" && ["x86_64", "aarch64"].some((arch) => existsSync(`/lib/ld-musl-${arch}.so.1`)),
    packaged(file) {
      try {
        return require2.resolve(file);
      } catch {
        return void 0;
      }
    }
  };
}

// dist/gateway.js
import { createHash, createHmac, randomBytes, timingSafeEqual } from "node:crypto";
var isProblem = (value) => "problem" in value;
var START_MS = 95e3;
var HEALTH_MS = 2e3;
var IDLE_MS = 1e3;
function starter(find, flags = () => []) {
  return async (ms) => {
    const found = find();
    if ("missing" in found)
      return { problem: found.missing };
    const child = run(found.path, ["start", "--json", ...flags()], ms);
    const line = await child.line(ms);
    const code = await child.ended;
    if (line === void 0 || code !== 0) {
      const why = child.words() || (code === null ? `no answer within ${ms / 1e3} s` : `it ended with ${code}`);
      return { problem: `\`ibeam start\` failed: ${why}` };
    }
    return readGateway(line) ?? { problem: "`ibeam start --json` printed something that this plugin does not understand; update both" };
  };
}
function readGateway(line) {
  try {
    const value = JSON.parse(line);
    if (!isBag(value))
      return void 0;
    const { url, key, pid } = value;
    if (typeof url !== "string" || typeof key !== "string" || typeof pid !== "number")
      return void 0;
    const { protocol, hostname } = new URL(url);
    if (protocol !== "http:" || !["127.0.0.1", "localhost", "[::1]"].includes(hostname))
      return void 0;
    return { url: url.replace(/\/+$/, ""), key, pid };
  } catch {
    return void 0;
  }
}
function proofOf(gateway, challenge) {
  const key = createHash("sha256").update(gateway.key).digest();
  const authority = gateway.url.replace(/^http:\/\//, "");
  return createHmac("sha256", key).update(`ibeam gateway proof 1\0${authority}\0${challenge}`).digest("hex");
}
function isProof(given, gateway, challenge) {
  const wanted = Buffer.from(proofOf(gateway, challenge));
  const found = Buffer.from(given ?? "");
  return found.length === wanted.length && timingSafeEqual(found, wanted);
}
var Connection = class {
  #start;
  #fetch;
  #now;
  #gateway;
  #starting;
  #used = 0;
  constructor(start, fetcher = fetch, now = Date.now) {
    this.#start = start;
    this.#fetch = fetcher;
    this.#now = now;
  }
  async get() {
    const known = this.#gateway;
    if (known) {
      const idle = this.#now() - this.#used;
      if (idle < IDLE_MS || await this.#isItself(known)) {
        this.#used = this.#now();
        return known;
      }
      return this.renew(known);
    }
    return this.#begin();
  }
  /** Another one in place of `stale`, unless it was replaced already. */
  async renew(stale) {
    if (this.#gateway && this.#gateway !== stale)
      return this.#gateway;
    this.#gateway = void 0;
    return this.#begin();
  }
  #begin() {
    this.#starting ??= this.#startProven().catch((error) => ({ problem: `\`ibeam start\` failed: ${String(error)}` })).then((outcome2) => {
      this.#starting = void 0;
      if (!isProblem(outcome2)) {
        this.#gateway = outcome2;
        this.#used = this.#now();
      }
      return outcome2;
    });
    return this.#starting;
  }
  /** A program that has not shown that it is the gateway gets neither key nor prompt. One may have
   * ended a moment ago, so there is a second attempt. */
  async #startProven() {
    let problem = "";
    for (let attempt = 0; attempt < 2; attempt++) {
      const outcome2 = await this.#start(START_MS);
      if (isProblem(outcome2))
        return outcome2;
      const who = await this.#ask(outcome2);
      if (who === "itself")
        return outcome2;
      problem = who === "silent" ? `the gateway at ${outcome2.url} does not answer` : `the program at ${outcome2.url} is not your gateway: it does not have the gateway's key. Nothing was sent to it`;
    }
    return { problem };
  }
  async #isItself(gateway) {
    return await this.#ask(gateway) === "itself";
  }
  /** Asks it to show that it has the key, without sending that. */
  async #ask(gateway) {
    const challenge = randomBytes(32).toString("hex");
    try {
      const answer = await this.#fetch(`${gateway.url}/health`, {
        headers: { "x-ibeam-challenge": challenge },
        redirect: "error",
        signal: AbortSignal.timeout(HEALTH_MS)
      });
      await answer.body?.cancel();
      return isProof(answer.headers.get("x-ibeam-proof"), gateway, challenge) ? "itself" : "stranger";
    } catch {
      return "silent";
    }
  }
};

// dist/list.js
import { mkdir, rename, writeFile } from "node:fs/promises";
import { homedir as homedir2 } from "node:os";
import { dirname, join as join2 } from "node:path";

// dist/files.js
import { readFile, stat } from "node:fs/promises";
async function readSmall(path, cap) {
  const found = await stat(path);
  return found.isFile() && found.size <= cap ? readFile(path, "utf8") : void 0;
}

// dist/models.js
var USUAL_EFFORTS = ["low", "medium", "high"];
var AUTO = "auto";
var CONTEXT = 2e5;
var OUTPUT = 32e3;
function assumed(names) {
  return [.../* @__PURE__ */ new Set([AUTO, ...names])].map((id) => ({
    id,
    name: id === AUTO ? "Auto" : id,
    context: CONTEXT,
    output: OUTPUT,
    tools: true,
    images: true,
    reasoning: false,
    efforts: []
  }));
}
function readModels(body) {
  if (!isBag(body) || !Array.isArray(body["data"]))
    return void 0;
  return body["data"].filter(isBag).flatMap((card) => {
    const id = card["id"];
    if (typeof id !== "string" || id === "")
      return [];
    const can = isBag(card["capabilities"]) ? card["capabilities"] : {};
    const efforts = Array.isArray(can["efforts"]) ? can["efforts"] : [];
    return {
      id,
      name: typeof card["name"] === "string" && card["name"] ? card["name"] : id,
      context: tokens(card["context_window"], CONTEXT),
      output: tokens(card["max_output_tokens"], OUTPUT),
      tools: can["tools"] !== false,
      images: can["images"] === true,
      reasoning: can["reasoning"] === true,
      efforts: efforts.filter((effort) => typeof effort === "string")
    };
  });
}
var tokens = (value, otherwise) => typeof value === "number" && Number.isSafeInteger(value) && value > 0 ? value : otherwise;
function described(model) {
  const entry = {
    name: model.name,
    attachment: model.images,
    reasoning: model.reasoning,
    temperature: false,
    tool_call: model.tools,
    limit: { context: model.context, output: model.output },
    modalities: { input: model.images ? ["text", "image"] : ["text"], output: ["text"] },
    // The plan pays; OpenCode has no other way to say so.
    cost: { input: 0, output: 0, cache_read: 0, cache_write: 0 }
  };
  if (model.reasoning && model.efforts.length > 0)
    entry["variants"] = variants(model.efforts);
  return entry;
}
function variants(efforts) {
  const all = {};
  for (const effort of USUAL_EFFORTS)
    if (!efforts.includes(effort))
      all[effort] = { disabled: true };
  for (const effort of efforts)
    all[effort] = { reasoningEffort: effort };
  return all;
}
function merged(offered, own, older = /* @__PURE__ */ new Map()) {
  const live = new Map(offered.map((model) => [model.id, described(model)]));
  const result = Object.fromEntries(live);
  for (const [name, given] of Object.entries(isBag(own) ? own : {})) {
    if (!isBag(given))
      continue;
    const api = older.get(name);
    const model = api ? { ...given, ...said(given, api) } : given;
    const stands = typeof model["id"] === "string" ? model["id"] : name;
    result[name] = { ...live.get(stands), ...model };
  }
  return result;
}
function said(model, api) {
  const now = {};
  if (typeof api["id"] === "string")
    now["id"] = api["id"];
  if (typeof api["npm"] === "string") {
    now["provider"] = { npm: api["npm"], ...isBag(model["provider"]) ? model["provider"] : {} };
  }
  return now;
}

// dist/send.js
var SESSION_REUSE = "x-ibeam-session-reuse";
var WRONG_KEY = "invalid_api_key";
var NOT_SIGNED_IN = "not_authenticated";
var SIGN_IN = "not signed in to Cursor; run `opencode auth login` and choose Cursor";
function sender(connection, sessionReuse, fetcher = fetch) {
  return async (input, init) => {
    const signal = init?.signal ?? (input instanceof Request ? input.signal : void 0);
    const gateway = await unlessAborted(connection.get(), signal);
    if (isProblem(gateway))
      return refusal(gateway.problem);
    const once = (to) => {
      const request = address(input, to.url);
      return fetcher(request.target, { ...init, headers: headers(input, init, to, sessionReuse) });
    };
    const repeatable = !(input instanceof Request) && (init?.body == null || typeof init.body === "string");
    let answer;
    try {
      answer = await once(gateway);
    } catch (error) {
      if (!repeatable || !isRefused(error))
        throw error;
      return again(await connection.renew(gateway), once);
    }
    if (answer.status !== 401)
      return answer;
    const code = await codeOf(answer);
    if (code === NOT_SIGNED_IN)
      return refusal(SIGN_IN, 401);
    return code === WRONG_KEY && repeatable ? again(await connection.renew(gateway), once) : answer;
  };
}
async function again(gateway, once) {
  return isProblem(gateway) ? refusal(gateway.problem) : once(gateway);
}
function address(input, base) {
  const url = new URL(input instanceof Request ? input.url : input);
  const target = `${base}${url.pathname}${url.search}`;
  return { target: input instanceof Request ? new Request(target, input) : target };
}
function headers(input, init, to, sessionReuse) {
  const all = new Headers(init?.headers ?? (input instanceof Request ? input.headers : void 0));
  all.set("authorization", `Bearer ${to.key}`);
  all.delete("x-api-key");
  if (!sessionReuse)
    all.set(SESSION_REUSE, "off");
  return all;
}
function isRefused(error) {
  for (let at = error, depth = 0; isError(at) && depth < 4; at = at.cause, depth++) {
    if (at.code === "ECONNREFUSED" || at.code === "ConnectionRefused")
      return true;
  }
  return false;
}
var isError = (value) => typeof value === "object" && value !== null;
async function codeOf(answer) {
  try {
    const body = await answer.clone().json();
    return isBag(body) && isBag(body["error"]) ? body["error"]["code"] : void 0;
  } catch {
    return void 0;
  }
}
function unlessAborted(work, signal) {
  if (!signal)
    return work;
  return new Promise((resolve2, reject) => {
    const abort = () => reject(signal.reason);
    if (signal.aborted)
      return abort();
    signal.addEventListener("abort", abort, { once: true });
    work.then(resolve2, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}
function refusal(message, status = 400) {
  const error = { message: `ibeam: ${message}`, type: "invalid_request_error", code: "ibeam_unavailable", param: null };
  return Response.json({ error }, { status, headers: { "x-should-retry": "false" } });
}

// dist/list.js
var WITHOUT_CACHE_MS = 25e3;
var WITH_CACHE_MS = 3e3;
var ANSWER_MS = 15e3;
var CAP = 2e6;
async function listModels(connection, cache, patience = { withCache: WITH_CACHE_MS, without: WITHOUT_CACHE_MS }, fetcher = fetch) {
  const last = await cache?.read();
  const asking = ask(connection, fetcher).then(async (outcome3) => {
    if (!isProblem(outcome3))
      await cache?.write(outcome3.models);
    return outcome3;
  });
  const ms = last ? patience.withCache : patience.without;
  let timer;
  const late = new Promise((resolve2) => {
    timer = setTimeout(() => resolve2({ problem: `the gateway did not return a model list within ${ms / 1e3} s` }), ms);
  });
  const outcome2 = await Promise.race([asking, late]);
  clearTimeout(timer);
  if (!isProblem(outcome2))
    return outcome2;
  return { models: (isSignedOut(outcome2) ? void 0 : last) ?? [], problem: outcome2.problem };
}
var isSignedOut = (outcome2) => outcome2.problem === SIGN_IN;
async function ask(connection, fetcher) {
  try {
    const gateway = await connection.get();
    if (isProblem(gateway))
      return gateway;
    const signal = AbortSignal.timeout(ANSWER_MS);
    const answer = await fetcher(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${gateway.key}` }, signal });
    const body = await answer.json();
    if (!answer.ok)
      return { problem: refused(answer.status, body) };
    const models = readModels(body);
    return models ? { models } : { problem: "the gateway returned a model list that this plugin does not understand; update both" };
  } catch (error) {
    return { problem: `the gateway did not return a model list: ${error instanceof Error ? error.message : String(error)}` };
  }
}
function refused(status, body) {
  const error = isBag(body) && isBag(body["error"]) ? body["error"] : {};
  if (status === 401 && error["code"] === NOT_SIGNED_IN)
    return SIGN_IN;
  const words = typeof error["message"] === "string" ? error["message"] : `status ${status}`;
  return `the gateway did not return a model list: ${words}`;
}
var Cache = class _Cache {
  #path;
  #of;
  /** `of`: the account that a list belongs to, as far as the surroundings tell. */
  constructor(path, of) {
    this.#path = path;
    this.#of = of;
  }
  /** `flags`: those of `ibeam start`, which choose an account, too. */
  static here(flags, env = process.env) {
    const local = process.platform === "win32" ? env["LOCALAPPDATA"] : void 0;
    const folder = local ?? env["XDG_CACHE_HOME"] ?? join2(homedir2(), ".cache");
    const of = [env["IBEAM_PROFILE"] ?? "default", env["IBEAM_API_URL"] ?? env["CURSOR_API_URL"] ?? "", ...flags].join("|");
    return new _Cache(join2(folder, "ibeam", "opencode-models.json"), of);
  }
  async read() {
    try {
      const value = JSON.parse(await readSmall(this.#path, CAP) ?? "null");
      if (!isBag(value) || value["of"] !== this.#of || !Array.isArray(value["models"]))
        return void 0;
      const models = value["models"].filter(isOffered);
      return models.length > 0 ? models : void 0;
    } catch {
      return void 0;
    }
  }
  /** There at once, or not at all. A cache that cannot be written is done without. */
  async write(models) {
    try {
      await mkdir(dirname(this.#path), { recursive: true, mode: 448 });
      const fresh = `${this.#path}.${process.pid}`;
      await writeFile(fresh, JSON.stringify({ of: this.#of, models }), { mode: 384 });
      await rename(fresh, this.#path);
    } catch {
      return;
    }
  }
};
function isOffered(value) {
  if (!isBag(value))
    return false;
  const texts = ["id", "name"].every((name) => typeof value[name] === "string");
  const numbers = ["context", "output"].every((name) => typeof value[name] === "number");
  const flags = ["tools", "images", "reasoning"].every((name) => typeof value[name] === "boolean");
  return texts && numbers && flags && Array.isArray(value["efforts"]);
}

// dist/older.js
import { homedir as homedir3 } from "node:os";
import { dirname as dirname2, join as join3 } from "node:path";
var CAP2 = 1e6;
var UPWARDS = 24;
var NAMES = ["config.json", "opencode.json", "opencode.jsonc"];
async function olderModels(id, directory, env = process.env, home = homedir3()) {
  const found = /* @__PURE__ */ new Map();
  for (const path of places(directory, env, home)) {
    const config = await read(path);
    const provider2 = isBag(config) && isBag(config["provider"]) ? config["provider"][id] : void 0;
    const models = isBag(provider2) && isBag(provider2["models"]) ? provider2["models"] : {};
    for (const [name, model] of Object.entries(models)) {
      if (isBag(model) && isBag(model["api"]))
        found.set(name, model["api"]);
    }
  }
  return found;
}
function places(directory, env, home) {
  const global = join3(env["XDG_CONFIG_HOME"] || join3(home, ".config"), "opencode");
  const folders = [];
  for (let at = directory; folders.length < UPWARDS; at = dirname2(at)) {
    folders.unshift(at);
    if (at === dirname2(at))
      break;
  }
  const given = env["OPENCODE_CONFIG"] ? [env["OPENCODE_CONFIG"]] : [];
  return [
    ...NAMES.map((name) => join3(global, name)),
    ...given,
    ...folders.flatMap((folder) => NAMES.slice(1).map((name) => join3(folder, name)))
  ];
}
async function read(path) {
  try {
    return JSON.parse(plain(await readSmall(path, CAP2) ?? "null"));
  } catch {
    return void 0;
  }
}
function plain(text) {
  const bare = text.replace(/"(?:\\.|[^"\\])*"|\/\/[^\n]*|\/\*[\s\S]*?\*\//g, (part) => part.startsWith("/") ? " " : part);
  return bare.replace(/"(?:\\.|[^"\\])*"|,(?=\s*[}\]])/g, (part) => part === "," ? "" : part);
}

// dist/words.js
var PATIENCE_MS2 = 2e3;
function teller(client, stderr = toStderr) {
  const shown = /* @__PURE__ */ new Set();
  return (text) => {
    if (shown.has(text))
      return;
    shown.add(text);
    const message = `ibeam: ${text}`;
    if (!hasWindow())
      stderr(message);
    quietly(() => client?.app.log({ body: { service: "ibeam", level: "warn", message } }));
    quietly(() => client?.tui.showToast({ body: { message, variant: "warning" } }));
  };
}
function hasWindow() {
  const command = process.argv.slice(2).find((part) => !part.startsWith("-"));
  const wordy = ["run", "models", "auth", "providers", "serve", "web", "debug", "agent", "mcp", "stats", "export", "import", "github", "pr", "session"];
  return command === void 0 || !wordy.includes(command);
}
function quietly(act) {
  const timer = setTimeout(() => {
    try {
      Promise.resolve(act()).catch(() => {
      });
    } catch {
      return;
    }
  }, PATIENCE_MS2);
  timer.unref?.();
}
function toStderr(text) {
  process.stderr.write(`${text}
`);
}

// dist/plugin.js
var PROVIDER = "cursor";
var NPM = "@ai-sdk/openai-compatible";
var NOWHERE = "http://127.0.0.1:18741";
var server = async (input, given) => {
  try {
    return hooks(input, given);
  } catch (error) {
    process.stderr.write(`ibeam: the plugin did not start: ${String(error)}
`);
    return {};
  }
};
function hooks(input, given) {
  const say = teller(input.client);
  let { options, complaints } = readOptions(given);
  const find = () => findBinary(options.bin);
  const flags = () => options.args;
  const connection = new Connection(starter(find, flags));
  const send = (target, init) => sender(connection, options.sessionReuse)(target, init);
  const configure = async (config) => {
    const providers = config["provider"] ??= {};
    const own = isBag(providers[PROVIDER]) ? providers[PROVIDER] : {};
    const set = isBag(own["options"]) ? own["options"] : {};
    ({ options, complaints } = readOptions(given, set));
    complaints.forEach(say);
    const shown = provider(own, set, options.timeout, send);
    const older = isBag(own["models"]) ? await olderModels(PROVIDER, input.directory ?? process.cwd()) : void 0;
    providers[PROVIDER] = { ...shown, models: merged(assumed(chosen(config)), own["models"], older) };
    const { models, problem } = await listModels(connection, options.cacheModels ? Cache.here(flags()) : void 0);
    if (problem)
      say(problem);
    const offered = models.length > 0 ? models : assumed(chosen(config));
    providers[PROVIDER] = { ...shown, models: merged(offered, own["models"], older) };
  };
  return {
    config: (config) => guarded(() => configure(config), say),
    auth: {
      provider: PROVIDER,
      methods: methods(find, flags, say),
      async loader(stored) {
        const keep = (key) => input.client.auth.set({ path: { id: PROVIDER }, body: { type: "api", key } });
        await guarded(() => adopt({ stored, find, flags, keep, say }), say);
        return { apiKey: MARKER, fetch: send };
      }
    }
  };
}
function provider(own, set, timeout, send) {
  const { timeout: _, ...rest } = set;
  const limit = timeout === void 0 ? set["timeout"] === false ? { timeout: false } : {} : { timeout };
  return {
    npm: NPM,
    name: "Cursor",
    ...own,
    options: { baseURL: `${NOWHERE}/v1`, apiKey: MARKER, ...rest, ...limit, fetch: send }
  };
}
function chosen(config) {
  const named = [config.model, config.small_model].filter((name) => typeof name === "string");
  return named.filter((name) => name.startsWith(`${PROVIDER}/`)).map((name) => name.slice(PROVIDER.length + 1));
}
async function guarded(act, say) {
  try {
    await act();
  } catch (error) {
    say(`the plugin failed: ${error instanceof Error ? error.message : String(error)}`);
  }
}

// dist/index.js
var index_default = { id: "ibeam", server };
export {
  index_default as default
};
