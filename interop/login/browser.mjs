// A headless Chromium that opens a link and presses a button with the mouse. Also a
// program, for where the gateway itself opens the browser:
//
//   node browser.mjs BUTTON REPORT URL

import { spawn } from "node:child_process";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const LIMIT_MS = 60_000;

const FLAGS = [
  "--headless=new",
  "--remote-debugging-pipe",
  "--no-first-run",
  "--no-default-browser-check",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--disable-gpu",
  // Containers have a small one.
  "--disable-dev-shm-usage",
];

/** Spoken to over its DevTools pipe: JSON messages that end in a zero byte. */
export class Chromium {
  #home = mkdtempSync(join(tmpdir(), "ibeam-chromium-"));
  #child;
  #ended;
  #serial = 0;
  #waiting = new Map();
  #events = [];
  #words = "";

  constructor() {
    const home = this.#home;
    const program = process.env.IBEAM_CHROMIUM;
    if (!program) throw new Error("IBEAM_CHROMIUM must name the browser");
    // The sandbox refuses root.
    const sandbox = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
    const args = [...FLAGS, ...sandbox, `--user-data-dir=${home}`, "about:blank"];
    this.#child = spawn(program, args, {
      env: { PATH: process.env.PATH, HOME: home, TMPDIR: home, IBEAM_CHROMIUM: program },
      stdio: ["ignore", "ignore", "pipe", "pipe", "pipe"],
    });
    this.#child.stderr.setEncoding("utf8").on("data", (text) => {
      this.#words = (this.#words + text).slice(-4_000);
    });
    this.#ended = new Promise((resolve) => {
      const ends = (why) => {
        for (const { reject } of this.#waiting.values()) reject(new Error(`${why}\n${this.#words}`));
        this.#waiting.clear();
        resolve();
      };
      this.#child.once("error", (error) => ends(error.message));
      this.#child.once("close", () => ends("the browser has ended"));
    });
    const [, , , out, back] = this.#child.stdio;
    out.on("error", () => {});
    let rest = "";
    back.setEncoding("utf8").on("data", (chunk) => {
      const messages = (rest + chunk).split("\0");
      rest = messages.pop();
      for (const message of messages) this.#hear(JSON.parse(message));
    });
  }

  #hear(message) {
    if (message.id === undefined) {
      this.#events.push(message.method);
      return;
    }
    const waiting = this.#waiting.get(message.id);
    this.#waiting.delete(message.id);
    if (message.error) waiting?.reject(new Error(`${waiting.method}: ${message.error.message}`));
    else waiting?.resolve(message.result);
  }

  #send(method, params = {}, sessionId = undefined) {
    const id = ++this.#serial;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { method, resolve, reject });
      this.#child.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
    });
  }

  /** Runs something that loads a page, and waits until it is loaded. */
  async #loads(act) {
    const seen = () => this.#events.filter((method) => method === "Page.loadEventFired").length;
    const before = seen();
    await act();
    for (const deadline = Date.now() + LIMIT_MS; seen() === before; ) {
      if (Date.now() > deadline) throw new Error(`no page was loaded\n${this.#words}`);
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
  }

  /** Opens a link and presses the button of this value: the page before and after it. */
  async press(url, button) {
    const page = await this.#page();
    await page.open(url);
    const before = await page.text();
    await page.click(`button[value="${button}"]`);
    const after = await page.text();
    await page.close();
    return { url, before, after };
  }

  async #page() {
    const { targetId } = await this.#send("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await this.#send("Target.attachToTarget", { targetId, flatten: true });
    const send = (method, params) => this.#send(method, params, sessionId);
    const evaluate = async (expression) => {
      const { result, exceptionDetails } = await send("Runtime.evaluate", { expression, returnByValue: true });
      if (exceptionDetails) throw new Error(`${expression}: ${exceptionDetails.text}`);
      return result.value;
    };
    await send("Page.enable");
    return {
      open: (url) => this.#loads(() => send("Page.navigate", { url })),
      text: () => evaluate("document.body.innerText"),
      close: () => this.#send("Target.closeTarget", { targetId }),
      click: async (selector) => {
        const place = await evaluate(`(() => {
          const box = document.querySelector(${JSON.stringify(selector)})?.getBoundingClientRect();
          return box && { x: box.x + box.width / 2, y: box.y + box.height / 2 };
        })()`);
        if (!place) throw new Error(`the page has no ${selector}:\n${await evaluate("document.body.innerHTML")}`);
        const mouse = { ...place, button: "left", clickCount: 1 };
        await this.#loads(async () => {
          await send("Input.dispatchMouseEvent", { type: "mousePressed", ...mouse });
          await send("Input.dispatchMouseEvent", { type: "mouseReleased", ...mouse });
        });
      },
    };
  }

  async close() {
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), 5_000);
    this.#send("Browser.close").catch(() => {});
    await this.#ended;
    clearTimeout(timer);
    rmSync(this.#home, { recursive: true, force: true, maxRetries: 5 });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [button, report, url] = process.argv.slice(2);
  const browser = new Chromium();
  const outcome = await browser.press(url, button).catch((error) => ({ url, error: String(error) }));
  // There at once, or not at all.
  writeFileSync(`${report}.new`, JSON.stringify(outcome));
  renameSync(`${report}.new`, report);
  await browser.close();
}
