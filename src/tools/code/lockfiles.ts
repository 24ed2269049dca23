/**
 * Reads the lockfiles of package managers. Pure. What a file does not tell, such as what is only for development in
 * Cargo.lock, is left out.
 */
import { ToolError } from '../../base/errors.ts';
import { parseJson } from '../../base/text/json.ts';
import { isRecord } from '../../base/text/values.ts';
import { type DataParsers, readData } from '../data-text.ts';
import { type Entry, type Lockfile, type Parsed, recordOf, records, textOf, toLockfile } from './locked-packages.ts';
import { ofNpm } from './npm-lockfile.ts';

/** The files of a manager in a project's folder, the best first, and how each is read; `manifest` is the text of package.json. */
export const LOCKFILES = {
  npm: { 'package-lock.json': (text) => ofNpmText(text) },
  pnpm: { 'pnpm-lock.yaml': (text, { parsers }) => ofPnpm(parsedText(text, 'yaml', parsers)) },
  yarn: { 'yarn.lock': (text, reading) => ofYarn(text, reading) },
  cargo: { 'Cargo.lock': (text, { parsers }) => ofToml(parsedText(text, 'toml', parsers).package, 'cargo') },
  go: { 'go.mod': (text) => ofGo(text) },
  pip: {
    'uv.lock': (text, { parsers }) => ofToml(parsedText(text, 'toml', parsers).package, 'python'),
    'poetry.lock': (text, { parsers }) => ofToml(parsedText(text, 'toml', parsers).package, 'python'),
    'pylock.toml': (text, { parsers }) => ofToml(parsedText(text, 'toml', parsers).packages, 'python'),
    'requirements.txt': (text) => ofRequirements(text),
  },
} as const satisfies Record<string, Record<string, (text: string, reading: Reading) => Parsed>>;
export type Manager = keyof typeof LOCKFILES;

interface Reading {
  readonly parsers: DataParsers;
  /** The value of package.json. */
  readonly manifest: unknown;
}

/** Reads a lockfile. Throws SyntaxError for one that is damaged, UNSUPPORTED for one of a version that is not read. */
export function readLockfile(manager: Manager, name: string, text: string, reading: Reading): Lockfile {
  const read = (LOCKFILES[manager] as Record<string, (text: string, reading: Reading) => Parsed>)[name];
  if (!read) throw new SyntaxError(`${name} is no lockfile of ${manager}`);
  return toLockfile(read(text, reading));
}

function parsedText(text: string, format: 'yaml' | 'toml', parsers: DataParsers): Record<string, unknown> {
  const { problems, value } = readData(text, format, parsers);
  const [problem] = problems;
  if (problem) throw new SyntaxError(problem.message);
  return recordOf(value);
}

function ofNpmText(text: string): Parsed {
  const value: unknown = parseJson(text);
  const version = recordOf(value).lockfileVersion;
  if (version === 2 || version === 3) return ofNpm(value);
  throw new ToolError(
    'UNSUPPORTED',
    `package-lock.json has lockfileVersion ${JSON.stringify(version)}; 2 and 3 are supported`,
    { suggestion: 'npm 7 and newer write version 3: `npm install --package-lock-only`.' },
  );
}

/** Versions 6 and 9: the keys of `packages` are `name@version`, in 6 with a slash before; what needs whom is in `snapshots`, in 6 in `packages`. */
function ofPnpm({ importers, packages, snapshots, ...root }: Record<string, unknown>): Parsed {
  const keyOf = (name: string, version: string): string => bare(`${name}@${version}`);
  const bare = (key: string): string => key.replace(/^\//, '').replace(/\(.*$/, '');
  const needs = new Map<string, string[]>();
  for (const [key, it] of Object.entries(recordOf(snapshots ?? packages))) {
    const needed = ['dependencies', 'optionalDependencies'].flatMap((kind) =>
      Object.entries(recordOf(recordOf(it)[kind])),
    );
    needs.set(
      bare(key),
      needed.map(([name, version]) => keyOf(name, textOf(version))),
    );
  }
  const own = isRecord(importers) ? recordOf(importers['.']) : root;
  const kinds = ['dependencies', 'optionalDependencies', 'devDependencies'] as const;
  const asked = kinds.flatMap((kind) =>
    Object.entries(recordOf(own[kind])).map(([name, it]) => ({ kind, name, about: recordOf(it) })),
  );
  const entries = Object.entries(recordOf(packages)).map(([key, it]): [string, Entry] => {
    const { resolution, dev, optional, requiresBuild } = recordOf(it);
    const [, name = '', installed = ''] = /^(@?[^@]+)@(.*)$/.exec(bare(key)) ?? [];
    const isOfNpm = /^\d+\.\d+\.\d+/.test(installed) && recordOf(resolution).tarball === undefined;
    const told = {
      ...(dev !== undefined && { dev: dev === true }),
      ...(optional !== undefined && { optional: optional === true }),
    };
    const script = requiresBuild === undefined ? {} : { hasInstallScript: requiresBuild === true };
    return [bare(key), { name, installed, ...told, ...script, isOfNpm, needs: needs.get(bare(key)) ?? [] }];
  });
  const direct = asked.map(({ name, about }) => [keyOf(name, textOf(about.version)), textOf(about.specifier)] as const);
  return { entries: new Map(entries), direct: new Map(direct), hasTree: true };
}

/** Version 1 is a form of its own, later ones are YAML; each entry stands for one or more `name@range`. */
function ofYarn(text: string, { parsers, manifest }: Reading): Parsed {
  const isFirst = text.includes('# yarn lockfile v1');
  const value: Record<string, unknown> = isFirst ? yarnFirst(text) : parsedText(text, 'yaml', parsers);
  const byRange = new Map<string, string>();
  const entries = Object.entries(value).flatMap(([key, it]): [string, Entry][] => {
    const { version, resolution, resolved, dependencies, optionalDependencies } = recordOf(it);
    const from = textOf(resolved) || textOf(resolution);
    if (key === '__metadata' || from.includes('@workspace:')) return [];
    const ranges = key.split(/,\s*/).map((range) => range.replace(/@npm:/, '@'));
    const [, name = ''] = /^(@?[^@]+)@/.exec(ranges[0] ?? '') ?? [];
    const own = `${name}@${textOf(version)}`;
    for (const range of ranges) byRange.set(range, own);
    const needs = [dependencies, optionalDependencies].flatMap((list) =>
      Object.entries(recordOf(list)).map(([need, range]) => `${need}@${textOf(range).replace(/^npm:/, '')}`),
    );
    const isOfNpm = isFirst ? /^https:\/\/registry\.(yarnpkg\.com|npmjs\.org)\//.test(from) : from.includes('@npm:');
    return [[own, { name, installed: textOf(version), isOfNpm, needs }]];
  });
  const resolved = entries.map(([key, it]): [string, Entry] => [
    key,
    { ...it, needs: it.needs.flatMap((need) => byRange.get(need) ?? []) },
  ]);
  const asked = ['dependencies', 'optionalDependencies', 'devDependencies'].flatMap((kind) =>
    Object.entries(recordOf(recordOf(manifest)[kind])),
  );
  const direct = asked.flatMap(([name, range]) => {
    const key = byRange.get(`${name}@${textOf(range)}`);
    return key === undefined ? [] : [[key, textOf(range)] as const];
  });
  return { entries: new Map(resolved), direct: new Map(direct), hasTree: true };
}

/** `a@^1, a@^2:` begins an entry, two spaces before a field of it, four before a dependency. */
function yarnFirst(text: string): Record<string, Record<string, unknown>> {
  const found: Record<string, Record<string, unknown>> = {};
  let [entry, list]: [Record<string, unknown>, Record<string, unknown>] = [{}, {}];
  for (const line of text.split('\n')) {
    const [, indent = '', rest = ''] = /^( *)(.*?):?$/.exec(line) ?? [];
    if (rest === '' || rest.startsWith('#')) continue;
    const [, name = '', value] = /^"?([^"\s]+)"?(?: "?(.*?)"?)?$/.exec(rest) ?? [];
    if (indent === '') {
      entry = {};
      found[rest.replaceAll('"', '')] = entry;
    } else if (indent.length > 2) list[name] = value ?? '';
    else if (value !== undefined) entry[name] = value;
    else {
      list = {};
      entry[name] = list;
    }
  }
  return found;
}

/** Cargo.lock, uv.lock, poetry.lock and pylock.toml: a list of packages, in which those without a source are the project's own. */
function ofToml(packages: unknown, kind: 'cargo' | 'python'): Parsed {
  const all = records(packages);
  const byName = Map.groupBy(all, (it) => textOf(it.name));
  const keyOf = (name: string, version?: string): string => {
    const [only] = byName.get(name) ?? [];
    return `${name}@${version ?? textOf(only?.version)}`;
  };
  const needsOf = ({ dependencies }: Record<string, unknown>): string[] => {
    // `b`, `b 1.0` and `b 1.0 (registry+…)` in Cargo.lock, records in uv.lock, a table by name in poetry.lock.
    if (!Array.isArray(dependencies)) return Object.keys(recordOf(dependencies)).map((name) => keyOf(name));
    return dependencies.map((it: unknown) => {
      const [name = '', version] = typeof it === 'string' ? it.split(' ') : [textOf(recordOf(it).name)];
      return keyOf(name, version);
    });
  };
  const isOwn = ({ source }: Record<string, unknown>): boolean =>
    kind === 'cargo' ? source === undefined : ['editable', 'virtual'].some((it) => it in recordOf(source));
  const direct = all.filter(isOwn).flatMap(needsOf);
  const entries = all
    .filter((it) => !isOwn(it))
    .map((it): [string, Entry] => {
      const [name, installed] = [textOf(it.name), textOf(it.version)];
      return [`${name}@${installed}`, { name, installed, needs: needsOf(it) }];
    });
  return {
    entries: new Map(entries),
    direct: new Map(direct.map((it) => [it, undefined])),
    hasTree: direct.length > 0,
  };
}

/** The modules of go.mod, which names all that are built since Go 1.17; go.sum holds others, too. */
function ofGo(text: string): Parsed {
  const found = [...text.matchAll(/^\s*(?:require\s+)?([\w.~/-]+\.[\w.~/-]+)\s+(v[^\s/]+)([^\n]*)$/gm)];
  const entries = found.map(([, name = '', installed = '']): [string, Entry] => [name, { name, installed, needs: [] }]);
  const direct = found.filter(([, , , rest = '']) => !rest.includes('// indirect')).map(([, name = '']) => name);
  return { entries: new Map(entries), direct: new Map(direct.map((it) => [it, undefined])), hasTree: false };
}

/** The lines that pin one version; `pip freeze` writes no others. */
function ofRequirements(text: string): Parsed {
  const found = [...text.matchAll(/^([A-Za-z0-9][\w.-]*)(?:\[[^\]]*\])?\s*===?\s*([^\s;#\\]+)/gm)];
  const entries = found.map(([, name = '', installed = '']): [string, Entry] => [name, { name, installed, needs: [] }]);
  return { entries: new Map(entries), direct: new Map(), hasTree: false };
}
