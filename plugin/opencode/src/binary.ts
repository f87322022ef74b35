// Where the program is: named by the user, in the package's platform dependency, or in PATH.

import { accessSync, constants, existsSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { homedir } from "node:os";
import { delimiter, isAbsolute, join, resolve } from "node:path";

export interface Surroundings {
  env: Record<string, string | undefined>;
  platform: string;
  arch: string;
  home: string;
  /** Whether the C library is musl. */
  musl: boolean;
  /** The file of an installed package, or nothing. */
  packaged(file: string): string | undefined;
}

export type Found = { path: string } | { missing: string };

const INSTALL = "install ibeam, or set the option `bin` or IBEAM_BIN to its path";

/** Looks in all places, in order. What the user named and is not there ends the search. */
export function findBinary(bin: string | undefined, here: Surroundings = surroundings()): Found {
  const named: [string, string | undefined][] = [
    ["the option `bin`", bin],
    ["IBEAM_BIN", here.env["IBEAM_BIN"]],
  ];
  for (const [place, value] of named) {
    if (!value) continue;
    const path = expand(value, here.home);
    // A bare name is looked for in PATH.
    const found = /[\\/]/.test(value) || isAbsolute(value) ? runs(path) : inPath(value, here);
    return found ? { path: found } : { missing: `${place} names ${value}, which is not a program` };
  }
  const name = here.platform === "win32" ? "ibeam.exe" : "ibeam";
  for (const folder of platformPackages(here)) {
    const path = here.packaged(`${folder}/bin/${name}`);
    if (path && runs(path)) return { path };
  }
  const found = inPath(name, here);
  return found ? { path: found } : { missing: `the program \`ibeam\` is not installed: ${INSTALL}` };
}

/** The packages that may hold the program for this machine, the likelier first. */
export function platformPackages(here: Pick<Surroundings, "platform" | "arch" | "musl">): string[] {
  const base = `ibeam-${here.platform}-${here.arch}`;
  if (here.platform !== "linux") return [base];
  // A program that is linked statically runs with either library.
  return here.musl ? [`${base}-musl`] : [base, `${base}-musl`];
}

function inPath(name: string, here: Surroundings): string | undefined {
  const folders = (here.env["PATH"] ?? here.env["Path"] ?? "").split(delimiter);
  for (const folder of folders) {
    // An empty entry means the current folder, which is somebody's project.
    if (!folder || !isAbsolute(folder)) continue;
    const path = runs(join(folder, name));
    if (path) return path;
  }
  return undefined;
}

function runs(path: string): string | undefined {
  try {
    if (!statSync(path).isFile()) return undefined;
    accessSync(path, constants.X_OK);
    return path;
  } catch {
    return undefined;
  }
}

const expand = (path: string, home: string): string =>
  path.startsWith("~/") ? join(home, path.slice(2)) : resolve(path);

function surroundings(): Surroundings {
  const require = createRequire(import.meta.url);
  return {
    env: process.env,
    platform: process.platform,
    arch: process.arch,
    home: homedir(),
    musl: process.platform === "linux" && ["x86_64", "aarch64"].some((arch) => existsSync(`/lib/ld-musl-${arch}.so.1`)),
    packaged(file) {
      try {
        return require.resolve(file);
      } catch {
        return undefined;
      }
    },
  };
}
