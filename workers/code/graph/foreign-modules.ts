/** Files of modules of Python, Go and Rust, by the rules of the language, among the files that are known. */
import { basename, dirname, join, normalize } from 'node:path';
import type { CodeImport } from '../../../src/tools/source/source-code.ts';
import type { ProjectConfig } from './project-config.ts';

export interface KnownFiles {
  readonly files: ReadonlySet<string>;
  /** The files of each directory. */
  readonly byDirectory: ReadonlyMap<string, readonly string[]>;
  readonly configs: ReadonlyMap<string, ProjectConfig>;
}

/** The files that an import means; empty for modules of others. */
export function foreignTargets(file: string, it: CodeImport, known: KnownFiles): string[] {
  if (/\.pyi?$/.test(file)) return pythonTargets(file, it, known);
  if (file.endsWith('.go')) return goTargets(file, it, known);
  return rustTargets(file, it, known);
}

/** A module is a file or a directory with `__init__.py`; its names may be modules, too. */
function pythonTargets(file: string, { module, names }: CodeImport, { files }: KnownFiles): string[] {
  const dots = /^\.*/.exec(module)?.[0].length ?? 0;
  const rest = module.slice(dots).split('.').filter(Boolean).join('/');
  const up = (steps: number) => normalize(join(dirname(file), '../'.repeat(steps)));
  const bases = dots > 0 ? [up(dots - 1)] : [...new Set([...ancestorsOf(file), 'src'])];
  const fileOf = (path: string): string | undefined =>
    [`${path}.py`, `${path}/__init__.py`, `${path}.pyi`].map(normalize).find((it) => files.has(it));
  for (const base of bases) {
    const own = fileOf(join(base, rest));
    const inner = names.flatMap((name) => fileOf(join(base, rest, name)) ?? []);
    const found = [...inner, ...(own !== undefined && inner.length < names.length ? [own] : [])];
    if (found.length > 0) return found;
  }
  return [];
}

/** A package is a directory; `go.mod` tells the name of its module. */
function goTargets(file: string, { module }: CodeImport, { configs, byDirectory }: KnownFiles): string[] {
  for (const home of ancestorsOf(file)) {
    const name = configs.get(join(home, 'go.mod'))?.name;
    if (name === undefined || (module !== name && !module.startsWith(`${name}/`))) continue;
    const inside = byDirectory.get(normalize(join(home, module.slice(name.length)))) ?? [];
    return inside.filter((it) => it.endsWith('.go') && !it.endsWith('_test.go'));
  }
  return [];
}

/** `crate::` begins at the nearest `src` with a root file, `self::` and `super::` at the file; the longest path that is a file counts. */
function rustTargets(file: string, { module, names }: CodeImport, { files }: KnownFiles): string[] {
  const isRoot = /^(main|lib|mod)\.rs$/.test(basename(file));
  const own = isRoot ? dirname(file) : join(dirname(file), basename(file, '.rs'));
  const [first = '', ...rest] = [...module.split('::'), ...names.filter((it) => it !== '*')];
  let base: string | undefined;
  if (first === 'self') base = own;
  else if (first === 'super') base = dirname(own);
  else if (first === 'crate')
    base = ancestorsOf(file).find((it) => files.has(join(it, 'lib.rs')) || files.has(join(it, 'main.rs')));
  if (base === undefined) return [];
  while (rest[0] === 'super') {
    rest.shift();
    base = dirname(base);
  }
  for (let length = rest.length; length > 0; length -= 1) {
    const path = join(base, ...rest.slice(0, length));
    const found = [`${path}.rs`, `${path}/mod.rs`].find((it) => files.has(it));
    if (found !== undefined) return found === file ? [] : [found];
  }
  return [];
}

/** The directories above a file, the nearest first; `.` is the last. */
function ancestorsOf(file: string): string[] {
  const found: string[] = [];
  for (let at = dirname(file); ; at = dirname(at)) {
    found.push(at);
    if (at === '.' || at === '/') return found;
  }
}
