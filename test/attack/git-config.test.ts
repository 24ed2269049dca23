/**
 * Repositories whose config names a program. git reads the config whenever it runs, even in commands that only read: the
 * git tools run no such program, and a command runs it in its sandbox, or not at all where no command may run unasked.
 */
import { execFileSync } from 'node:child_process';
import { appendFileSync, chmodSync, cpSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ToolResult } from '../../src/base/call.ts';
import type { Client } from '../../src/client/client.ts';
import { removeTree, startDaemon, type TestDaemon, temporaryDir } from '../support/daemon.ts';
import { createRepository, type TestRepository } from '../support/repository.ts';

/** One way to make git run a program. */
interface Trap {
  readonly name: string;
  /** Working directory of git, relative to the repository. */
  readonly cwd?: string;
  /** A command line that runs the program outside of Ringfence, to show that the trap works; absent if none does. */
  readonly springs?: string;
  /** Makes the repository name the program, which is given as a shell word. */
  arm(repository: TestRepository, program: string): void;
}

/** A config key with a program as its value, in the repository's own config. */
const key = (name: string, springs?: string, more: Record<string, string> = {}): Trap => ({
  name,
  ...(springs !== undefined && { springs }),
  arm({ git }, program) {
    git('config', name, name.startsWith('alias.') ? `!${program}` : program);
    for (const [other, value] of Object.entries(more)) git('config', other, value);
  },
});

/** Adds a signature that only a program can verify. */
const signed = ({ git, folder }: TestRepository): void => {
  const commit = git('cat-file', 'commit', 'HEAD').replace(
    '\n\n',
    '\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----\n\n',
  );
  const id = execFileSync('git', ['hash-object', '-t', 'commit', '-w', '--stdin'], { cwd: folder, input: commit });
  git('update-ref', 'HEAD', id.toString().trim());
};

const FSMONITOR = (program: string) => `[core]\n\tfsmonitor = ${program}\n`;

const TRAPS: readonly Trap[] = [
  key('core.fsmonitor', 'git status'),
  key('filter.x.clean', 'git diff --stat'),
  key('filter.x.process', 'git diff --shortstat'),
  key('filter.x.smudge'),
  key('diff.external', 'git diff'),
  key('diff.x.textconv', 'git log -p'),
  key('diff.x.command', 'git diff'),
  {
    ...key('gpg.program', 'git log --format=%G?'),
    arm(it, program) {
      it.git('config', 'gpg.program', program);
      signed(it);
    },
  },
  {
    ...key('log.showSignature', 'git log'),
    arm(it, program) {
      it.git('config', 'gpg.program', program);
      it.git('config', 'log.showSignature', 'true');
      signed(it);
    },
  },
  key('alias.st', 'git st'),
  ...[
    'core.pager',
    'pager.log',
    'core.editor',
    'sequence.editor',
    'core.sshCommand',
    'core.askPass',
    'core.gitProxy',
  ].map((it) => key(it)),
  ...['credential.helper', 'interactive.diffFilter', 'merge.x.driver', 'core.alternateRefsCommand'].map((it) =>
    key(it),
  ),
  key('uploadpack.packObjectsHook'),
  key('remote.origin.uploadpack', 'git fetch', { 'remote.origin.url': '.' }),
  key('remote.origin.vcs', undefined, { 'remote.origin.url': '.' }),
  {
    name: 'a remote that is a program',
    springs: 'git fetch',
    arm({ git }, program) {
      git('config', 'remote.origin.url', `ext::${program}`);
      git('config', 'protocol.ext.allow', 'always');
    },
  },
  {
    name: 'core.hooksPath',
    springs: 'git checkout -q -b other',
    arm({ git, write, folder }, program) {
      write('own/post-checkout', `#!/bin/sh\n${program}\n`);
      chmodSync(join(folder, 'own/post-checkout'), 0o755);
      git('config', 'core.hooksPath', 'own');
    },
  },
  {
    name: 'core.attributesFile',
    springs: 'git diff --stat',
    arm({ git, write, folder }, program) {
      rmSync(join(folder, '.gitattributes'));
      write('attributes', '*.txt filter=x\n');
      git('config', 'core.attributesFile', 'attributes');
      git('config', 'filter.x.clean', program);
    },
  },
  {
    name: 'core.worktree',
    springs: 'git status',
    arm({ git }, program) {
      git('config', 'core.worktree', '/etc');
      git('config', 'core.fsmonitor', program);
    },
  },
  {
    name: 'include.path',
    springs: 'git status',
    arm({ git, write }, program) {
      write('included', FSMONITOR(program));
      git('config', 'include.path', '../included');
    },
  },
  {
    name: 'includeIf',
    springs: 'git status',
    arm({ git, write }, program) {
      write('included', FSMONITOR(program));
      git('config', 'includeIf.onbranch:main.path', '../included');
    },
  },
  {
    name: "a worktree's own config",
    springs: 'git status',
    arm({ git }, program) {
      git('config', 'extensions.worktreeConfig', 'true');
      git('config', '--worktree', 'core.fsmonitor', program);
    },
  },
  {
    name: 'a linked worktree',
    cwd: 'linked',
    springs: 'git status',
    arm({ git }, program) {
      git('config', 'core.fsmonitor', program);
      git('worktree', 'add', '-q', 'linked');
    },
  },
  {
    name: "a submodule's config, from outside of it",
    springs: 'git diff --stat',
    arm: (repository, program) => withSubmodule(repository, 'outer', program),
  },
  {
    name: "a submodule's config",
    cwd: 'sub',
    springs: 'git status',
    arm: (repository, program) => withSubmodule(repository, 'sub', program),
  },
  {
    name: 'a bare repository in plain files',
    cwd: 'inner',
    springs: 'git status',
    arm({ write }, program) {
      for (const it of ['objects/none', 'refs/none']) write(`inner/${it}`, '');
      write('inner/HEAD', 'ref: refs/heads/main\n');
      write(
        'inner/config',
        `[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = ..\n\tfsmonitor = ${program}\n`,
      );
    },
  },
  {
    name: 'a repository that a .git file points to',
    cwd: 'pointed',
    springs: 'git status',
    arm({ git, write, folder }, program) {
      git('config', 'core.fsmonitor', program);
      cpSync(join(folder, '.git'), join(folder, 'plain'), { recursive: true });
      write('pointed/.git', 'gitdir: ../plain\n');
    },
  },
];

/**
 * Makes the repository name a program that leaves a mark in the workspace and one outside, without breaking filters,
 * text conversions or signature checks that read its output.
 */
function armIn(repository: TestRepository, { arm }: Trap, mark: string, outside: string): void {
  const program = `${mark}.sh`;
  const text = `#!/bin/sh\ntouch '${mark}' '${outside}' 2>/dev/null\ncat 2>/dev/null </dev/null\n`;
  writeFileSync(program, text, { mode: 0o755 });
  arm(repository, program);
}

/** Makes a repository of the workspace with these traps, and shows that each works outside of Ringfence. */
function setTraps({ traps, path }: (typeof REPOSITORIES)[number], workspace: string, outer: string) {
  const repository = createRepository(join(workspace, path));
  const { folder } = repository;
  repository.write('a.txt', 'one\n');
  repository.write('.gitattributes', '*.txt filter=x diff=x merge=x\n');
  repository.commit('first');
  const armed = traps.map((trap, i) => {
    const [mark, outside] = [join(workspace, `${path}-${i}.ran`), join(outer, `${path}-${i}.ran`)];
    armIn(repository, trap, mark, outside);
    return { ...trap, mark, outside };
  });
  repository.write('a.txt', 'other\n');
  const clear = () => {
    for (const { mark, outside } of armed) for (const it of [mark, outside]) rmSync(it, { force: true });
  };
  for (const { name, cwd = '.', springs, mark, outside } of armed) {
    if (springs === undefined) continue;
    clear();
    execFileSync('sh', ['-c', `${springs} >/dev/null 2>&1 </dev/null; true`], {
      cwd: join(folder, cwd),
      env: { PATH: process.env.PATH ?? '', HOME: '/nonexistent' },
    });
    expect(existsSync(mark) && existsSync(outside), `${name} works outside`).toBe(true);
  }
  clear();
  const marked = (which: 'mark' | 'outside') => armed.filter((it) => existsSync(it[which])).map((it) => it.name);
  return { marked, folders: new Set(traps.map((it) => join(path, it.cwd ?? '.'))) };
}

/** Adds a submodule whose own config names the program. */
function withSubmodule(repository: TestRepository, name: string, program: string): void {
  const { git, folder } = repository;
  const inner = createRepository(join(folder, '../inner-of-submodule'));
  inner.write('b.txt', 'b\n');
  inner.commit('b');
  git('-c', 'protocol.file.allow=always', 'submodule', 'add', '-q', inner.folder, name);
  rmSync(inner.folder, { recursive: true });
  appendFileSync(join(folder, '.git/modules', name, 'config'), FSMONITOR(program));
  git('commit', '-qm', 'with a submodule');
}

/** Traps that would disable others, and the separate repository for each. */
const APART: Readonly<Record<string, string>> = {
  'diff.x.command': 'a second repository',
  'log.showSignature': 'a second repository',
  'a remote that is a program': 'a second repository',
  'include.path': 'a second repository',
  'remote.origin.vcs': 'a third repository',
  'core.attributesFile': 'a third repository',
  includeIf: 'a third repository',
  'a linked worktree': 'a linked worktree',
  'filter.x.process': 'a fourth repository',
  "a worktree's own config": 'a fourth repository',
  "a submodule's config, from outside of it": 'submodules',
  "a submodule's config": 'submodules',
  'a bare repository in plain files': 'repositories that others carry',
  'a repository that a .git file points to': 'repositories that others carry',
  'core.worktree': 'a work tree elsewhere',
};

const REPOSITORIES = [...Map.groupBy(TRAPS, ({ name }) => APART[name] ?? 'a repository')].map(([name, traps], i) => ({
  name,
  traps,
  path: `trap-${i}`,
}));

const COMMANDS = [
  ...['git status', 'git status --short', 'git status -uno', 'git diff', 'git diff --stat', 'git diff --name-only'],
  ...[
    'git diff --shortstat',
    'git diff --numstat main',
    'git log',
    'git log --oneline -3',
    'git log --stat',
    'git log -p',
  ],
  ...[
    'git log --format=%G?',
    'git log --pretty=%GG',
    'git show',
    'git branch',
    'git fetch',
    'git checkout -q -b other',
  ],
  ...[
    'git st',
    'git rev-parse --show-toplevel',
    'git ls-files',
    'git blame a.txt',
    'ls && git status',
    'git diff --stat | wc -l',
  ],
];

const TOOLS = ['git_status', 'git_diff', 'git_log', 'git_show', 'git_branch'];

const POLICIES = {
  careful: 'extends: careful\napprovals: { headless: deny }\n',
  'a policy without commands': 'tiers: { execute: { decision: deny } }\n',
};

const outer = temporaryDir('outside');
afterAll(() => removeTree(outer));

describe.each(Object.entries(POLICIES))('under %s', (_, policy) => {
  let daemon: TestDaemon;
  let agent: Client;
  beforeAll(async () => {
    daemon = await startDaemon({ policy: `version: 1\n${policy}` });
    agent = await daemon.connect();
  });
  afterAll(async () => {
    await agent[Symbol.asyncDispose]();
    await daemon[Symbol.asyncDispose]();
  });
  const call = (tool: string, input: object) =>
    agent.call(tool, input) as PromiseLike<ToolResult<Record<string, unknown>>>;

  test.each(REPOSITORIES)('$name: no command runs unasked, and no tool runs the program', async (repository) => {
    const { marked, folders } = setTraps(repository, daemon.workspace, outer);
    for (const cwd of folders) {
      for (const command of COMMANDS) {
        const result = await call('terminal_execute', { command, cwd });
        expect(result.success, command).toBe(false);
        expect(['APPROVAL_DENIED', 'POLICY_DENIED'], command).toContain(result.success ? '' : result.error.code);
      }
      expect(await call('terminal_script', { script: 'git status\n', cwd })).toMatchObject({ success: false });
      for (const tool of TOOLS) await call(tool, { path: cwd });
    }
    expect(marked('mark')).toEqual([]);
  });

  test('an agent that writes the program which an honest repository names does not get it run', async () => {
    const repository = createRepository(join(daemon.workspace, 'honest'));
    repository.write('a.txt', 'one\n');
    repository.commit('first');
    repository.git('config', 'filter.x.clean', 'sh tools/strip.sh');
    mkdirSync(join(repository.folder, 'tools'));
    const script = 'touch ran; cat';
    expect(await call('file_write', { path: 'honest/tools/strip.sh', content: script })).toMatchObject({
      success: true,
    });
    expect(await call('file_write', { path: 'honest/.gitattributes', content: '*.txt filter=x\n' })).toMatchObject({
      success: true,
    });
    repository.write('a.txt', 'other\n');
    for (const command of ['sh tools/strip.sh', 'git diff --stat', 'git status'])
      expect(await call('terminal_execute', { command, cwd: 'honest' }), command).toMatchObject({ success: false });
    expect(await call('git_diff', { path: 'honest' })).toMatchObject({ success: true, data: { files: 1 } });
    expect(existsSync(join(repository.folder, 'ran'))).toBe(false);
  });
});

describe('under default', () => {
  let daemon: TestDaemon;
  beforeAll(async () => {
    daemon = await startDaemon();
  });
  afterAll(() => daemon[Symbol.asyncDispose]());

  test.each(REPOSITORIES)(
    '$name: no tool runs the program, and commands run it in their sandbox',
    async (repository) => {
      await using agent = await daemon.connect();
      const { marked, folders } = setTraps(repository, daemon.workspace, outer);
      for (const path of folders) for (const tool of TOOLS) await agent.call(tool, { path });
      expect(marked('mark')).toEqual([]);
      for (const cwd of folders) await agent.call('terminal_execute', { command: COMMANDS.join('; '), cwd });
      expect(marked('outside')).toEqual([]);
      if (repository.name === 'a repository') expect(marked('mark')).toContain('core.fsmonitor');
    },
  );
});
