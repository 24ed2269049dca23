/**
 * Files that programs read unasked in a directory, so that an approval of `make -C d` is bound to `d/Makefile`.
 * Architecture invariant: pure.
 */
import type { SimpleCommand } from '../../policy/question.ts';

/** Programs that run what files of fixed names (`ORDERS`) say. */
const RUNNERS = new Set(
  (
    'npm pnpm yarn bun npx make gmake ninja cmake cargo go pytest tox nox gradle gradlew mvn mvnw ant just task rake bundle ' +
    'tsc jest vitest mocha eslint webpack vite rollup poetry uv pip hatch deno ruff mypy composer'
  ).split(' '),
);
const ORDERS = (
  'package.json .npmrc .yarnrc .yarnrc.yml pnpm-workspace.yaml Makefile makefile GNUmakefile build.ninja CMakeLists.txt ' +
  'pyproject.toml setup.py setup.cfg conftest.py pytest.ini tox.ini noxfile.py Cargo.toml build.rs .cargo/config.toml go.mod ' +
  'build.gradle build.gradle.kts settings.gradle settings.gradle.kts gradle.properties pom.xml build.xml justfile Justfile ' +
  'Taskfile.yml Rakefile Gemfile tsconfig.json vite.config.ts vite.config.js vitest.config.ts jest.config.js deno.json composer.json'
).split(' ');

/** Interpreters, and the files that they run when they are given a directory. */
const PYTHON = /^(python|pypy)[\d.]*$/;
const NODE = /^(node|nodejs|bun|deno)$/;
const MAIN_OF_NODE = ['package.json', 'index.js', 'index.json', 'index.mjs', 'index.cjs', 'index.ts'];

/** The most modules of one command line (`-m`) that are looked for. */
const MODULES_MAX = 16;

/** Names to look for in each directory that the commands may work in, relative to that directory. */
export function conventionalFiles(commands: readonly SimpleCommand[]): string[] {
  const names = new Set<string>();
  const modules = new Set<string>();
  for (const { words } of commands) {
    const programs = words.map((it) => it?.slice(it.lastIndexOf('/') + 1) ?? '');
    if (programs.some((it) => RUNNERS.has(it))) for (const it of ORDERS) names.add(it);
    if (programs.some((it) => NODE.test(it))) for (const it of MAIN_OF_NODE) names.add(it);
    if (!programs.some((it) => PYTHON.test(it))) continue;
    names.add('__main__.py');
    for (const it of modulesOf(words)) if (modules.size < MODULES_MAX) modules.add(it);
  }
  for (const it of modules) for (const name of filesOfModule(it)) names.add(name);
  return [...names];
}

/** Module names: the words after `-m`, or attached to it and other short options. */
function modulesOf(words: readonly (string | undefined)[]): string[] {
  return words.flatMap((word, at) => {
    const name = /^-[A-Za-z]*m(.*)$/s.exec(word ?? '')?.[1];
    const found = name === '' ? words[at + 1] : name;
    return found !== undefined && /^[\w.]{1,256}$/.test(found) ? [found] : [];
  });
}

/** `a.b` is `a/b.py` or `a/b/__main__.py`, and runs `__init__.py` of each package on the way. */
function filesOfModule(name: string): string[] {
  const parts = name.split('.').filter((it) => it !== '');
  const folders = parts.map((_, at) => parts.slice(0, at + 1).join('/'));
  const modulePath = parts.join('/');
  return [...folders.map((it) => `${it}/__init__.py`), `${modulePath}.py`, `${modulePath}/__main__.py`];
}
