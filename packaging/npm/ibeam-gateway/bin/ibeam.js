#!/usr/bin/env node
// Starts the program that one of the platform packages holds. Nothing is downloaded, and nothing
// is decided here but which package that is: npm has installed the one that fits.
"use strict";

const { spawn } = require("node:child_process");
const { existsSync } = require("node:fs");
const { constants } = require("node:os");
const { dirname, join } = require("node:path");
const { isatty } = require("node:tty");

const { optionalDependencies: packages, version } = require("../package.json");

const { platform, arch, env } = process;
const here = `${platform}-${arch}`;
const file = platform === "win32" ? "ibeam.exe" : "ibeam";

/** Where the program of a package is, if that is installed, in our version. */
function inside(name) {
  let manifest;
  try {
    manifest = require.resolve(`${name}/package.json`);
  } catch {
    return undefined;
  }
  const program = join(dirname(manifest), "bin", file);
  return require(manifest).version === version && existsSync(program) ? program : undefined;
}

/** Whether this Node, and so this system, is built on another C library than glibc. */
function isMusl() {
  if (platform !== "linux") return false;
  // It would look up names of the network's addresses otherwise, which takes its time.
  if (process.report) process.report.excludeNetwork = true;
  return !process.report?.getReport().header.glibcVersionRuntime;
}

function find() {
  const [usual, still] = [`ibeam-${here}`, `ibeam-${here}-musl`];
  if (!(usual in packages)) {
    throw `no package exists for ${here}; with Rust installed, \`cargo install --git https://github.com/ibeam-gateway/ibeam ibeam\` builds ibeam`;
  }
  const musl = isMusl();
  // The static one runs everywhere; the other only with glibc, where it is the quicker one.
  const program = (musl ? undefined : inside(usual)) ?? (still in packages ? inside(still) : undefined);
  if (program) return program;
  const wanted = musl ? still : usual;
  throw `the package ${wanted}@${version} is not installed; run \`npm install -g ibeam-gateway@${version} --include=optional\` (not with --no-optional or --omit=optional)`;
}

function fail(words) {
  console.error(`ibeam: ${words}`);
  process.exit(1);
}

/** In the place of this process: the same id, and the same terminal. */
function become(program, args) {
  if (platform === "win32" || typeof process.execve !== "function") return;
  process.execve(program, [program, ...args], env);
}

/** Otherwise as a child: this process passes signals on and ends as the child ends. */
function accompany(program, args) {
  const child = spawn(program, args, { stdio: "inherit", windowsHide: false });
  // A terminal sends its own signals to the child, too. Passed on, Ctrl-C would count twice,
  // and the second one means: at once.
  const terminal = [0, 1, 2].some(isatty);
  const both = ["SIGINT", "SIGQUIT", "SIGHUP"];
  const names = [...both, "SIGTERM", "SIGUSR2", "SIGCONT"].filter((name) => name in constants.signals);
  for (const name of names) {
    process.on(name, () => {
      if (!(terminal && both.includes(name))) child.kill(name);
    });
  }
  child.on("error", (error) => fail(`${program} cannot be started: ${error.message}`));
  child.on("exit", (code, signal) => {
    for (const name of names) process.removeAllListeners(name);
    if (signal) process.kill(process.pid, signal);
    else process.exitCode = code;
  });
}

try {
  const program = find();
  const args = process.argv.slice(2);
  become(program, args);
  accompany(program, args);
} catch (error) {
  fail(typeof error === "string" ? error : error.message);
}
