/** Detects a project's tools from its files: the commands that belong to it, and the hosts that its package managers need. */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { parseJson } from '../../text/json.ts';

/** The first words of a command, each a word or its alternatives, as a policy rule matches them. */
export type CommandPattern = readonly (string | readonly string[])[];

export interface ProjectTool {
  readonly name: string;
  /** The file that shows that the project uses the tool. */
  readonly evidence: string;
  /** Commands that build, test and check this project. */
  readonly commands: readonly CommandPattern[];
  /** Hosts of the package registries. */
  readonly hosts: readonly string[];
  /** Whether builds are known to take minutes and many processes. */
  readonly isHeavy?: boolean;
}

/** Largest file that is read; a project's own description is never larger. */
const FILE_BYTES_MAX = 1024 * 1024;

/** Scripts and targets that check or build. Others (deploy, release, publish, start) still need approval. */
const HARMLESS =
  /^(?:test|tests|unit|lint|check|typecheck|type-check|tsc|build|compile|format|fmt|coverage|bench)(?::[\w.-]{1,40})?$/;

type FileReader = (name: string) => string | undefined;

const FINDERS: readonly ((read: FileReader) => ProjectTool | undefined)[] = [node, python, cargo, go, make];

/** The tools of the project in `folder`; runs none of its programs. */
export function findProjectTools(folder: string): ProjectTool[] {
  const read = (name: string) => textOf(join(folder, name));
  return FINDERS.flatMap((it) => it(read) ?? []);
}

const NODE_MANAGERS = [
  { name: 'pnpm', lock: 'pnpm-lock.yaml', hosts: ['registry.npmjs.org'] },
  { name: 'yarn', lock: 'yarn.lock', hosts: ['registry.yarnpkg.com', 'registry.npmjs.org'] },
  { name: 'bun', lock: 'bun.lock', hosts: ['registry.npmjs.org'] },
  { name: 'npm', lock: 'package-lock.json', hosts: ['registry.npmjs.org'] },
] as const;

function node(read: FileReader): ProjectTool | undefined {
  const text = read('package.json');
  if (text === undefined) return undefined;
  const scripts = scriptsOf(text);
  const { name, hosts } = NODE_MANAGERS.find((it) => read(it.lock) !== undefined) ?? NODE_MANAGERS[3];
  const commands: CommandPattern[] = scripts.length > 0 ? [[name, ['run', 'run-script'], scripts]] : [];
  if (scripts.includes('test')) commands.push([name, ['test', 't']]);
  return { name, evidence: 'package.json', commands, hosts };
}

function scriptsOf(text: string): string[] {
  try {
    const { scripts } = parseJson(text) as { scripts?: unknown };
    return typeof scripts === 'object' && scripts !== null
      ? Object.keys(scripts).filter((it) => HARMLESS.test(it))
      : [];
  } catch {
    return []; // npm would reject the file as well.
  }
}

const PYTHON_FILES = ['pyproject.toml', 'requirements.txt', 'setup.py', 'tox.ini'];

function python(read: FileReader): ProjectTool | undefined {
  const evidence = PYTHON_FILES.find((it) => read(it) !== undefined);
  if (evidence === undefined) return undefined;
  const said = PYTHON_FILES.map((it) => read(it) ?? '').join('\n');
  const uses = (name: string) => new RegExp(`\\b${name}\\b`).test(said);
  const checkers = ['ruff', 'mypy', 'black', 'pyright', 'flake8'].filter(uses);
  const tests: CommandPattern[] = uses('pytest')
    ? [['pytest'], [['python', 'python3'], '-m', 'pytest']]
    : [[['python', 'python3'], '-m', 'unittest']];
  const name = read('uv.lock') === undefined ? (read('poetry.lock') === undefined ? 'pip' : 'poetry') : 'uv';
  const runner: CommandPattern[] = name === 'pip' ? [] : [[name, 'run', ['pytest', ...checkers]]];
  return {
    name,
    evidence,
    commands: [...tests, ...(checkers.length > 0 ? [[checkers]] : []), ...runner],
    hosts: ['pypi.org', 'files.pythonhosted.org'],
  };
}

function cargo(read: FileReader): ProjectTool | undefined {
  if (read('Cargo.toml') === undefined) return undefined;
  const verbs = ['build', 'check', 'test', 'clippy', 'fmt', 'doc', 'bench'];
  const hosts = ['index.crates.io', 'static.crates.io', 'crates.io'];
  return { name: 'cargo', evidence: 'Cargo.toml', commands: [['cargo', verbs]], hosts, isHeavy: true };
}

function go(read: FileReader): ProjectTool | undefined {
  if (read('go.mod') === undefined) return undefined;
  const commands: CommandPattern[] = [['go', ['build', 'test', 'vet', 'fmt']], ['gofmt']];
  return { name: 'go', evidence: 'go.mod', commands, hosts: ['proxy.golang.org', 'sum.golang.org'], isHeavy: true };
}

function make(read: FileReader): ProjectTool | undefined {
  const evidence = ['Makefile', 'makefile', 'GNUmakefile'].find((it) => read(it) !== undefined);
  if (evidence === undefined) return undefined;
  const targets = [...(read(evidence) ?? '').matchAll(/^([\w:.-]+)[ \t]*:(?!=)/gm)].map(([, name = '']) => name);
  const own = [...new Set(targets)].filter((it) => it === 'all' || HARMLESS.test(it));
  if (own.length === 0) return undefined;
  return { name: 'make', evidence, commands: [['make', own]], hosts: [], isHeavy: true };
}

/** The content of a file; undefined if it is missing or too large. */
function textOf(path: string): string | undefined {
  try {
    const { size } = statSync(path);
    return existsSync(path) && size <= FILE_BYTES_MAX ? readFileSync(path, 'utf8') : undefined;
  } catch {
    return undefined; // ENOENT, EISDIR
  }
}
