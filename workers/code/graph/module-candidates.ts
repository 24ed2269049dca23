/** Directories and names to look for an imported module, by the rules of tsconfig.json and package.json; never outside of the workspace. */
import { dirname, join, normalize, relative } from 'node:path';
import type { Limits } from '../../../src/base/limits.ts';
import type { ProjectConfig } from './project-config.ts';
import type { Candidates } from './resolve.ts';

/** Mappings of names, of one tsconfig and those that it is based on. */
interface Mappings {
  readonly paths: readonly (readonly [pattern: string, targets: readonly string[]])[];
  /** Directory for names that no mapping has; relative to the workspace. */
  readonly base: string | undefined;
}

/** All paths are relative to the workspace root. */
export class ModuleCandidates {
  readonly #workspace: string;
  readonly #configs: ReadonlyMap<string, ProjectConfig>;
  readonly #limits: Limits;
  readonly #packages: ReadonlyMap<string, string>;
  readonly #mappings = new Map<string, readonly Mappings[]>();

  constructor(workspace: string, configs: ReadonlyMap<string, ProjectConfig>, limits: Limits) {
    this.#workspace = workspace;
    this.#configs = configs;
    this.#limits = limits;
    const named = [...configs].filter(([path]) => path.endsWith('package.json'));
    this.#packages = new Map(named.flatMap(([path, { name }]) => (name === undefined ? [] : [[name, dirname(path)]])));
  }

  /** Undefined for a module that is no file of the workspace by its name; empty for one that can't be found. */
  of(file: string, module: string): Candidates | undefined {
    const name = module.replace(/[?].*$/, '');
    const found = this.#mapped(file, name);
    const at = this.#absolute(dirname(file));
    if (name.startsWith('.')) {
      if (!isInside(join(dirname(file), name))) return [];
      return [[at, name]];
    }
    if (name.startsWith('#')) return [...found, [at, name]];
    if (name.startsWith('/')) return [...found, [this.#workspace, `.${name}`]];
    found.push(...this.#ofPackage(name));
    const isOwn = found.length > 0 || this.isMapped(file, name);
    return isOwn ? found.slice(0, this.#limits.moduleCandidatesMax) : undefined;
  }

  /** Whether a mapping names the module itself, so that it must be a file of the workspace. */
  isMapped(file: string, module: string): boolean {
    const inPaths = this.#mappingsFor(dirname(file)).some(({ paths }) =>
      paths.some(([pattern]) => pattern !== '*' && matchOf(pattern, module) !== undefined),
    );
    return inPaths || this.#packages.has(packageOf(module));
  }

  #mapped(file: string, name: string): (readonly [string, string])[] {
    const found: (readonly [string, string])[] = [];
    for (const { paths, base } of this.#mappingsFor(dirname(file))) {
      const matching = paths.filter(([pattern]) => matchOf(pattern, name) !== undefined);
      for (const [pattern, targets] of matching.sort(([a], [b]) => prefixOf(b).length - prefixOf(a).length))
        for (const it of targets)
          found.push([this.#workspace, `./${it.replace('*', () => matchOf(pattern, name) ?? '')}`]);
      if (base !== undefined && /^[\w@]/.test(name)) found.push([this.#workspace, `./${join(base, name)}`]);
    }
    return found.filter(([, it]) => isInside(it)).slice(0, this.#limits.moduleCandidatesMax);
  }

  /** A package of this workspace: by its own exports, which may name built files, else by where sources mostly are. */
  #ofPackage(name: string): Candidates {
    const owner = packageOf(name);
    const directory = this.#packages.get(owner);
    if (directory === undefined) return [];
    const at = this.#absolute(directory);
    const rest = name.slice(owner.length + 1);
    const usual = rest === '' ? ['.', './src/index', './src/main'] : [`./${rest}`, `./src/${rest}`];
    return [[at, name], ...usual.filter((it) => isInside(join(directory, it))).map((it): [string, string] => [at, it])];
  }

  /** Mappings for the files of a directory: of the nearest tsconfig.json or jsconfig.json, and of what that refers to. */
  #mappingsFor(directory: string): readonly Mappings[] {
    const known = this.#mappings.get(directory);
    if (known) return known;
    const own = ['tsconfig.json', 'jsconfig.json'].map((it) => join(directory, it)).find((it) => this.#configs.has(it));
    let found: readonly Mappings[] = [];
    if (own !== undefined) {
      const references = (this.#configs.get(own)?.references ?? []).map((it) => this.#configAt(dirname(own), it));
      found = [own, ...references].flatMap((it) => (it === undefined ? [] : this.#mappingsOf(it)));
    } else if (directory !== '.') found = this.#mappingsFor(dirname(directory));
    this.#mappings.set(directory, found);
    return found;
  }

  /** The mappings of one tsconfig: the nearest `paths` and `baseUrl` on the way through what it is based on. */
  #mappingsOf(first: string): Mappings[] {
    let paths: Mappings['paths'] | undefined;
    let base: string | undefined;
    const left = [first];
    const seen = new Set<string>();
    for (let at = left.shift(); at !== undefined && seen.size < this.#limits.projectExtendsMax; at = left.shift()) {
      const config = this.#configs.get(at);
      if (!config || seen.has(at)) continue;
      seen.add(at);
      const home = dirname(at);
      const ownBase = config.baseUrl === undefined ? undefined : join(home, config.baseUrl);
      base ??= ownBase;
      paths ??= config.paths?.map(([pattern, targets]) => [pattern, targets.map((it) => join(ownBase ?? home, it))]);
      // The last of several bases counts most.
      left.push(...config.extends.toReversed().flatMap((it) => this.#configAt(home, it) ?? []));
    }
    return paths || base !== undefined ? [{ paths: paths ?? [], base }] : [];
  }

  /** The config that another one names; undefined for one in a package, or outside of what is shown. */
  #configAt(home: string, name: string): string | undefined {
    if (!/^\.{1,2}(\/|$)/.test(name) && !name.endsWith('.json')) return undefined;
    const at = join(home, name);
    return [at, `${at}.json`, join(at, 'tsconfig.json')].find((it) => this.#configs.has(it));
  }

  #absolute(path: string): string {
    return join(this.#workspace, path);
  }
}

/** A path relative to the workspace, for an absolute one; undefined if it lies outside. */
export function relativeTo(workspace: string, path: string): string | undefined {
  const found = relative(workspace, path);
  return isInside(found) ? found : undefined;
}

/** The file of a relative import by its name alone, for where a broken package.json keeps modules from being found. */
export function plainTarget(file: string, module: string, files: ReadonlyMap<string, unknown>): string | undefined {
  const path = join(dirname(file), module);
  return ['', '.ts', '.tsx', '.js', '.jsx', '/index.ts', '/index.tsx', '/index.js']
    .map((it) => `${path}${it}`)
    .find((it) => files.has(it));
}

const isInside = (path: string): boolean => {
  const plain = normalize(path);
  return plain !== '..' && !plain.startsWith('../') && !plain.startsWith('/');
};

const prefixOf = (pattern: string): string => pattern.split('*')[0] ?? '';

/** What `*` stands for; '' for a pattern without one. */
function matchOf(pattern: string, name: string): string | undefined {
  const [before = '', after] = pattern.split('*');
  if (after === undefined) return pattern === name ? '' : undefined;
  const isMatch = name.length >= before.length + after.length && name.startsWith(before) && name.endsWith(after);
  return isMatch ? name.slice(before.length, name.length - after.length) : undefined;
}

/** The package that a module belongs to: two segments with a scope, else one. */
export const packageOf = (module: string): string =>
  module
    .split('/')
    .slice(0, module.startsWith('@') ? 2 : 1)
    .join('/');
