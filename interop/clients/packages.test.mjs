// The packages as their users meet them: installed by npm and by dpkg, unpacked, and started.

import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { start, until } from "./lib/group.mjs";
import { manifestOf, registry, settings } from "./lib/registry.mjs";
import { newerNode } from "./lib/work.mjs";

const packed = process.env.IBEAM_PACKAGES;
const others = process.env.IBEAM_OTHER_PACKAGES;
const LIMIT = { timeout: 120_000 };
const START_MS = 30_000;
const files = readdirSync(packed);
const one = (pattern) => {
  const found = files.filter((name) => pattern.test(name));
  assert.equal(found.length, 1, `${pattern} in ${files}`);
  return join(packed, found[0]);
};

let version;
let room;
let npm;
let installed;
before(async () => {
  version = (await manifestOf(one(/^ibeam-gateway-.*\.tgz$/))).version;
  room = mkdtempSync(join(tmpdir(), "ibeam-packages-"));
  npm = await registry(packed, others);
  installed = await install("usual");
});
after(async () => {
  await npm?.stop();
  rmSync(room, { recursive: true, force: true, maxRetries: 5 });
});

/** `npm install -g ibeam-gateway` in a home of its own, or without `-g` in a project there. */
async function install(name, flags = [], all = ["-g"]) {
  const home = join(room, name);
  mkdirSync(home);
  const env = { PATH: process.env.PATH, HOME: home, ...settings(npm.url, home) };
  await promisify(execFile)("npm", ["install", ...all, "ibeam-gateway", ...flags], { env, cwd: home });
  const inside = join(all.length ? join(env.npm_config_prefix, "lib") : home, "node_modules/ibeam-gateway");
  return { inside, program: join(env.npm_config_prefix, "bin/ibeam"), launcher: join(inside, "bin/ibeam.js") };
}

/** What a program does: its exit code and words. */
async function run(program, ...args) {
  const env = { PATH: process.env.PATH, HOME: join(room, "usual") };
  const child = start(program, args, { cwd: room, env });
  const end = await child.ended;
  return { ...end, out: child.out(), err: child.err() };
}

test("npm installs the one program that fits, and runs nothing", LIMIT, async () => {
  const { platform, arch } = process;
  assert.deepEqual(npm.fetched.toSorted(), ["ibeam-gateway", `ibeam-${platform}-${arch}`]);
  const manifest = JSON.parse(readFileSync(join(installed.inside, "package.json"), "utf8"));
  assert.equal(manifest.scripts, undefined);
  assert.equal(Object.keys(manifest.optionalDependencies).length, 7);
  for (const wanted of Object.values(manifest.optionalDependencies)) assert.equal(wanted, version);
  const quiet = await install("quiet", ["--ignore-scripts"]);
  assert.equal((await run(quiet.program, "--version")).out, `ibeam ${version}\n`);
});

// An older Node keeps the launcher beside the program; a newer one puts the program in its place.
for (const [kind, node, replaced] of [["this Node", process.execPath, typeof process.execve === "function"], ["a newer Node", newerNode, true]]) {
  test(`the launcher under ${kind}: words and exit codes`, LIMIT, async () => {
    const { launcher } = installed;
    assert.deepEqual(await run(node, launcher, "--version"), { code: 0, signal: null, out: `ibeam ${version}\n`, err: "" });
    const wrong = await run(node, launcher, "no-such-command");
    assert.equal(wrong.code, 2);
    assert.match(wrong.err, /no-such-command/);
    const args = await run(node, launcher, "config", "show", "--set", "host=a b  c'd\"");
    assert.ok(`${args.out}${args.err}`.includes("a b  c'd\""), "an argument did not come through");
  });

  test(`the launcher under ${kind}: signals`, LIMIT, async (t) => {
    for (const [name, code] of [["SIGTERM", 0], ["SIGINT", 0]]) {
      const { child, program } = await gateway(t, node, []);
      assert.equal(program === child.pid, replaced, "the program is not where it should be");
      process.kill(child.pid, name);
      assert.deepEqual(await child.ended, { code, signal: null }, `${name}: ${child.err()}`);
      assert.ok(!existsSync(`/proc/${program}`), `${name} left the program behind`);
    }
    const { child, program } = await gateway(t, node, []);
    process.kill(program, "SIGKILL");
    assert.deepEqual(await child.ended, { code: null, signal: "SIGKILL" });
  });

  test(`the launcher under ${kind}: Ctrl-C in a terminal counts once`, LIMIT, async (t) => {
    const { child } = await gateway(t, "script", ["-q", "-e", "-f", "/dev/null", "-c"], node);
    child.write("\x03");
    assert.deepEqual(await child.ended, { code: 0, signal: null }, child.out());
    // The second one would end what runs, and with another code.
    assert.doesNotMatch(child.out(), /stopping at once: cancelling running requests/);
  });
}

/** A gateway by way of the launcher, and the process that really is it. */
async function gateway(t, program, before, node) {
  const args = [installed.launcher, "serve", "--sim", "--port", "0"];
  const line = node ? [...before, `exec ${[node, ...args].map((word) => `'${word}'`).join(" ")}`] : args;
  const env = { PATH: process.env.PATH, HOME: join(room, "usual") };
  const child = start(program, line, { cwd: room, env, input: true });
  t.after(() => child.stop());
  await until(child, "ibeam serve", START_MS, () => /http:\/\/127\.0\.0\.1:\d+/.test(child.out()));
  const below = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8").trim();
  return { child, program: below ? Number(below) : child.pid };
}

test("what is missing is said in one line", LIMIT, async () => {
  // (With `-g`, npm does not listen to that.)
  const bare = await install("bare", ["--omit=optional"], []);
  const { platform, arch } = process;
  const said = async (before, launcher) => {
    const prelude = join(room, "prelude.cjs");
    writeFileSync(prelude, before);
    const { code, out, err } = await run(process.execPath, "--require", prelude, launcher, "--version");
    assert.equal(code, 1);
    assert.equal(out, "");
    assert.match(err, /^ibeam: [^\n]+\n$/);
    return err;
  };
  const plain = await said("", bare.launcher);
  assert.ok(plain.includes(`ibeam-${platform}-${arch}@${version}`), plain);
  assert.match(plain, /npm install -g ibeam-gateway@\S+ --include=optional/);
  const musl = "process.report.getReport = () => ({ header: {} });";
  assert.match(await said(musl, bare.launcher), /ibeam-linux-\w+-musl@/);
  // A program for glibc does not start on musl, and the loader's words would help nobody.
  assert.match(await said(musl, installed.launcher), /ibeam-linux-\w+-musl@/);
  const strange = "Object.defineProperty(process, 'platform', { value: 'sunos' });";
  assert.match(await said(strange, installed.launcher), /no package exists for sunos-\w+; .*cargo install --git/);
});

test("npm would pack the same files", LIMIT, async () => {
  // Those that say what is in them; the program's package holds all that is there.
  for (const file of [`ibeam-gateway-${version}.tgz`, `ibeam-opencode-${version}.tgz`]) {
    const folder = join(room, `packed-${file}`);
    mkdirSync(folder);
    execFileSync("tar", ["-xzf", join(packed, file), "-C", folder]);
    const list = execFileSync("tar", ["-tzf", join(packed, file)], { encoding: "utf8" }).trim().split("\n");
    const env = { PATH: process.env.PATH, HOME: folder, ...settings(npm.url, folder) };
    const pack = ["pack", "--dry-run", "--json", "--ignore-scripts"];
    const { stdout } = await promisify(execFile)("npm", pack, { cwd: join(folder, "package"), env });
    const [{ files: wanted, filename }] = Object.values(JSON.parse(stdout));
    assert.equal(filename, file);
    // Licences go with every package, also where its list does not name them.
    const sorted = (paths) => paths.filter((path) => !path.startsWith("LICENSE-")).toSorted();
    assert.deepEqual(sorted(list.map((path) => path.replace(/^package\//, ""))), sorted(wanted.map(({ path }) => path)));
  }
});

test("the archive holds a program that runs, its pages and its licences", LIMIT, async () => {
  const archive = one(/\.tar\.gz$/);
  const folder = join(room, "archive");
  mkdirSync(folder);
  execFileSync("tar", ["-xzf", archive, "-C", folder]);
  const [top] = readdirSync(folder);
  const inside = join(folder, top);
  assert.equal((await run(join(inside, "ibeam"), "--version")).out, `ibeam ${version}\n`);
  const page = readFileSync(join(inside, "man/man1/ibeam.1"), "utf8");
  assert.match(page, /^\.TH ibeam/m);
  assert.match(readFileSync(join(inside, "completions/ibeam.bash"), "utf8"), /complete .*ibeam/);
  execFileSync("bash", ["-n", join(inside, "completions/ibeam.bash")]);
  const notices = readFileSync(join(inside, "THIRD-PARTY.txt"), "utf8");
  for (const crate of ["tokio", "rustls", "rusqlite"]) assert.match(notices, new RegExp(`^${crate} [\\d.]+.*: `, "m"));
  assert.match(notices, /Permission is hereby granted/);
  for (const name of ["LICENSE-MIT", "LICENSE-APACHE", "README.md", "CHANGELOG.md"]) assert.ok(existsSync(join(inside, name)), name);
});

test("dpkg installs the Debian package and removes it", LIMIT, async () => {
  const deb = one(/\.deb$/);
  const field = (name) => execFileSync("dpkg-deb", ["-f", deb, name], { encoding: "utf8" }).trim();
  assert.equal(field("Version"), version);
  assert.match(field("Depends"), /^libc6 \(>= [\d.]+\), libgcc-s1/);
  const root = join(room, "root");
  for (const folder of ["info", "updates", "triggers"]) mkdirSync(join(root, "var/lib/dpkg", folder), { recursive: true });
  writeFileSync(join(root, "var/lib/dpkg/status"), "");
  // An empty system has none of what it depends on, and may belong to anybody.
  const dpkg = (...args) =>
    execFileSync("dpkg", [`--root=${root}`, "--force-depends", "--force-not-root", "--force-bad-path", ...args], { stdio: "pipe" });
  dpkg("-i", deb);
  assert.equal((await run(join(root, "usr/bin/ibeam"), "--version")).out, `ibeam ${version}\n`);
  const unit = readFileSync(join(root, "usr/lib/systemd/user/ibeam.service"), "utf8");
  assert.match(unit, /^ExecStart=\/usr\/bin\/ibeam serve/m);
  const { stdout: pages } = await promisify(execFile)("gzip", ["-dc", join(root, "usr/share/man/man1/ibeam.1.gz")]);
  assert.match(pages, /^\.TH ibeam/m);
  for (const path of [
    "bash-completion/completions/ibeam",
    "zsh/vendor-completions/_ibeam",
    "fish/vendor_completions.d/ibeam.fish",
    "doc/ibeam/copyright",
    "doc/ibeam/changelog.gz",
    "doc/ibeam/THIRD-PARTY.txt.gz",
  ])
    assert.ok(existsSync(join(root, "usr/share", path)), path);
  dpkg("-P", "ibeam");
  assert.ok(!existsSync(join(root, "usr/bin/ibeam")) && !existsSync(join(root, "usr/share/doc/ibeam")));
});

test("lintian has nothing against the Debian package", { timeout: 300_000 }, async () => {
  const env = { ...process.env, HOME: room, LC_ALL: "C.UTF-8" };
  const args = ["--allow-root", "--fail-on", "error,warning", "--tag-display-limit", "0", one(/\.deb$/)];
  const said = await promisify(execFile)("lintian", args, { env }).catch((error) => error);
  assert.ok(!said.code, `${said.stdout}${said.stderr}`);
});

test("the checksums are right, and tell a changed file", LIMIT, async () => {
  const copy = join(room, "sums");
  cpSync(packed, copy, { recursive: true });
  const check = () => run("sh", "-c", `cd '${copy}' && sha256sum --strict -c SHA256SUMS`);
  const good = await check();
  assert.equal(good.code, 0, good.err);
  assert.equal(good.out.trim().split("\n").length, files.length - 1);
  writeFileSync(join(copy, files.find((name) => name.endsWith(".tgz"))), "x");
  assert.equal((await check()).code, 1);
});
