/** `URL` and `URLSearchParams` for programs. Their source runs in the guest's realm; the host knows the parts of a URL (url-parts.ts). */

/** The sources of all functions here; they run as text in the guest's realm, beside those of web-globals.ts. */
export const urlGlobalSources = (): string =>
  [urlPartNames, urlsOf, searchParamsOf, pairsIn, textOf, formText, formPairs].join('\n');

/** The parts of a URL as JSON, of which one was set before; nothing for what is no URL. */
export type UrlParts = (text: string, base?: string, part?: string, value?: string) => string;

type Pairs = [string, string][];
/** What a URL may do with its search parameters. */
interface Linked {
  pairsOf?: (params: object) => Pairs;
  onChange?: (params: object, work: () => void) => void;
}

type DecodeUtf8 = (bytes: Uint8Array, fatal: boolean, stream: boolean) => [text: string, end: number];

/** Parts of a URL, in the order in which the host gives them; all but the first may be set. */
export function urlPartNames(): string[] {
  return 'origin href protocol username password host hostname port pathname search hash'.split(' ');
}

export function urlsOf(partsOf: UrlParts, decodeUtf8: DecodeUtf8, parse: typeof JSON.parse) {
  const names = urlPartNames();
  const linked: Linked = {};
  const URLSearchParams = searchParamsOf(linked, decodeUtf8);
  const listOf = (...words: Parameters<UrlParts>) => {
    const text = partsOf(...words);
    return text === '' ? undefined : (parse(text) as string[]);
  };
  const invalid = (text: string) =>
    Object.assign(new TypeError(`Invalid URL: ${text.slice(0, 200)}`), { code: 'ERR_INVALID_URL' });
  class URL {
    #parts: string[];
    #params: InstanceType<typeof URLSearchParams> | undefined;
    constructor(given: unknown, base?: unknown) {
      const text = textOf(given);
      const parts = listOf(text, base === undefined ? undefined : textOf(base));
      if (!parts) throw invalid(text);
      this.#parts = parts;
    }
    static canParse(given: unknown, base?: unknown): boolean {
      return URL.parse(given, base) !== null;
    }
    static parse(given: unknown, base?: unknown): URL | null {
      try {
        return new URL(given, base);
      } catch {
        return null;
      }
    }
    static {
      for (const [at, name] of names.entries()) {
        const get = function (this: URL) {
          return this.#parts[at];
        };
        const set = function (this: URL, value: unknown) {
          this.#set(name, textOf(value));
        };
        const own = at === 0 ? { get } : { get, set };
        Object.defineProperty(URL.prototype, name, { ...own, enumerable: true, configurable: true });
      }
    }
    get searchParams(): InstanceType<typeof URLSearchParams> {
      if (this.#params) return this.#params;
      const params = new URLSearchParams(this.#search);
      linked.onChange?.(params, () => this.#set('search', String(params), true));
      this.#params = params;
      return params;
    }
    get #search(): string {
      return this.#parts[names.indexOf('search')] as string;
    }
    #set(part: string, value: string, isOfParams = false): void {
      const parts = listOf(this.toString(), undefined, part, value);
      if (!parts && part === 'href') throw invalid(value);
      if (!parts) return;
      this.#parts = parts;
      if (isOfParams || !this.#params || (part !== 'search' && part !== 'href')) return;
      const pairs = linked.pairsOf?.(this.#params);
      pairs?.splice(0, pairs.length, ...formPairs(this.#search, decodeUtf8));
    }
    toString(): string {
      return this.#parts[names.indexOf('href')] as string;
    }
    toJSON(): string {
      return this.toString();
    }
  }
  return { URL, URLSearchParams };
}

function searchParamsOf(linked: Linked, decodeUtf8: DecodeUtf8) {
  return class URLSearchParams {
    #pairs: Pairs = [];
    #onChange: () => void = () => {};
    static {
      linked.pairsOf = (params) => (params as URLSearchParams).#pairs;
      linked.onChange = (params, work) => {
        (params as URLSearchParams).#onChange = work;
      };
    }
    constructor(given: unknown = '') {
      if ((typeof given !== 'object' && typeof given !== 'function') || given === null)
        this.#pairs = formPairs(textOf(given), decodeUtf8);
      else for (const [name, value] of pairsIn(given)) this.append(name, value);
    }
    get size(): number {
      return this.#pairs.length;
    }
    append(name: unknown, value: unknown): void {
      this.#pairs.push([textOf(name), textOf(value)]);
      this.#onChange();
    }
    delete(name: unknown, value?: unknown): void {
      this.#pairs.splice(0, this.#pairs.length, ...this.#pairs.filter((it) => !this.#is(it, name, value)));
      this.#onChange();
    }
    get(name: unknown): string | null {
      return this.#pairs.find((it) => this.#is(it, name))?.[1] ?? null;
    }
    getAll(name: unknown): string[] {
      return this.#pairs.filter((it) => this.#is(it, name)).map(([, value]) => value);
    }
    has(name: unknown, value?: unknown): boolean {
      return this.#pairs.some((it) => this.#is(it, name, value));
    }
    set(name: unknown, value: unknown): void {
      const first = this.#pairs.find((it) => this.#is(it, name));
      if (!first) return this.append(name, value);
      first[1] = textOf(value);
      this.#pairs.splice(0, this.#pairs.length, ...this.#pairs.filter((it) => it === first || !this.#is(it, name)));
      this.#onChange();
    }
    sort(): void {
      this.#pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
      this.#onChange();
    }
    forEach(work: (value: string, name: string, params: URLSearchParams) => void, own?: unknown): void {
      for (const [name, value] of this) work.call(own, value, name, this);
    }
    *entries(): IterableIterator<[string, string]> {
      for (let at = 0; at < this.#pairs.length; at++) yield [...(this.#pairs[at] as [string, string])];
    }
    *keys(): IterableIterator<string> {
      for (const [name] of this) yield name;
    }
    *values(): IterableIterator<string> {
      for (const [, value] of this) yield value;
    }
    [Symbol.iterator](): IterableIterator<[string, string]> {
      return this.entries();
    }
    toString(): string {
      return this.#pairs.map(([name, value]) => `${formText(name)}=${formText(value)}`).join('&');
    }
    #is([name, value]: [string, string], wanted: unknown, of?: unknown): boolean {
      return name === textOf(wanted) && (of === undefined || value === textOf(of));
    }
  };
}

function textOf(value: unknown): string {
  return String(value).toWellFormed();
}

function pairsIn(given: object): unknown[][] {
  if (!(Symbol.iterator in given)) return Object.entries(given);
  const pairs = [...(given as Iterable<Iterable<unknown>>)].map((it) => [...it]);
  if (pairs.some((it) => it.length !== 2)) throw new TypeError('each query pair must be a name and a value');
  return pairs;
}

/** Writes a text as forms do. */
function formText(text: string): string {
  const rest = (it: string) => `%${it.charCodeAt(0).toString(16).toUpperCase()}`;
  return encodeURIComponent(text)
    .replaceAll('%20', '+')
    .replace(/[!'()~]/g, rest);
}

/** Reads names and values as forms write them. */
function formPairs(query: string, decodeUtf8: DecodeUtf8): Pairs {
  // Each run of escapes is whole characters, since a plain character ends the one before it.
  const bytesOf = (run: string) => Uint8Array.from(run.slice(1).split('%'), (it) => Number.parseInt(it, 16));
  const read = (text: string) =>
    text.replaceAll('+', ' ').replace(/(?:%[\da-f]{2})+/gi, (run) => decodeUtf8(bytesOf(run), false, false)[0]);
  const parts = query.toWellFormed().replace(/^\?/, '').split('&');
  return parts.filter(Boolean).map((it) => {
    const at = it.indexOf('=');
    return at < 0 ? [read(it), ''] : [read(it.slice(0, at)), read(it.slice(at + 1))];
  });
}
