// What a user may set, as options of the plugin or of the provider `cursor`.

export interface Options {
  /** The program, when it is to be found nowhere else. */
  bin: string | undefined;
  /** Flags for `ibeam start`, such as `--sim` or `--profile work`. */
  args: string[];
  /** `false`: every request is answered from its own history alone. */
  sessionReuse: boolean;
  /** Whether the last list of models serves while the gateway is slow. */
  cacheModels: boolean;
  /** Milliseconds for a whole request. */
  timeout: number | undefined;
}

const FLAGS = 64;

export type Bag = Record<string, unknown>;

export function isBag(value: unknown): value is Bag {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** What is set, and a word about each value that cannot be used. The later bag counts. */
export function readOptions(...bags: unknown[]): { options: Options; complaints: string[] } {
  const all: Bag = Object.assign({}, ...bags.filter(isBag));
  const complaints: string[] = [];
  function take<T>(name: string, fits: (value: unknown) => value is T, wanted: string): T | undefined {
    const value = all[name];
    if (value === undefined || value === null) return undefined;
    if (fits(value)) return value;
    complaints.push(`the option \`${name}\` must be ${wanted}; it is ignored`);
    return undefined;
  }
  const options = {
    bin: take("bin", isText, "a path"),
    args: take("args", isFlags, "a list of flags for `ibeam start`") ?? [],
    sessionReuse: take("sessionReuse", isFlag, "true or false") ?? true,
    cacheModels: take("cacheModels", isFlag, "true or false") ?? true,
    timeout: take("timeout", isSpan, "a number of milliseconds"),
  };
  return { options, complaints };
}

const isText = (value: unknown): value is string => typeof value === "string" && value.trim() !== "";
const isFlags = (value: unknown): value is string[] =>
  Array.isArray(value) && value.length <= FLAGS && value.every((part) => typeof part === "string");
const isFlag = (value: unknown): value is boolean => typeof value === "boolean";
/** What a timer takes. */
const isSpan = (value: unknown): value is number =>
  typeof value === "number" && Number.isFinite(value) && value > 0 && value <= 2_147_483_647;
