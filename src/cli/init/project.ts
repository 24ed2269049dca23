/** Detects a project's tools from its files, with the registries that its packages come from; runs none of its programs. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';

export interface ProjectTool {
  readonly name: string;
  /** The file that shows that the project uses the tool. */
  readonly evidence: string;
  /** Hosts of the package registries. */
  readonly hosts: readonly string[];
  /** Whether builds are known to take minutes and many processes. */
  readonly isHeavy?: true;
}

const NPM = ['registry.npmjs.org'];
const PYPI = ['pypi.org', 'files.pythonhosted.org'];
const CRATES = ['index.crates.io', 'static.crates.io', 'crates.io'];
const GO = ['proxy.golang.org', 'sum.golang.org'];

/** The tools of each language, of which the first whose file is there counts. */
const TOOLS: readonly (readonly ProjectTool[])[] = [
  [
    { name: 'pnpm', evidence: 'pnpm-lock.yaml', hosts: NPM },
    { name: 'yarn', evidence: 'yarn.lock', hosts: ['registry.yarnpkg.com', ...NPM] },
    { name: 'bun', evidence: 'bun.lock', hosts: NPM },
    { name: 'npm', evidence: 'package.json', hosts: NPM },
  ],
  [
    { name: 'uv', evidence: 'uv.lock', hosts: PYPI },
    { name: 'poetry', evidence: 'poetry.lock', hosts: PYPI },
    ...['pyproject.toml', 'requirements.txt', 'setup.py', 'tox.ini'].map((evidence) => ({
      name: 'pip',
      evidence,
      hosts: PYPI,
    })),
  ],
  [{ name: 'cargo', evidence: 'Cargo.toml', hosts: CRATES, isHeavy: true }],
  [{ name: 'go', evidence: 'go.mod', hosts: GO, isHeavy: true }],
  ['Makefile', 'makefile', 'GNUmakefile'].map((evidence) => ({ name: 'make', evidence, hosts: [], isHeavy: true })),
];

export const findProjectTools = (folder: string): ProjectTool[] =>
  TOOLS.flatMap((tools) => tools.find((it) => existsSync(join(folder, it.evidence))) ?? []);
