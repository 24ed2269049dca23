/** The examples with a folder of their own, each run as its README says, from the installed package. */
import { type ChildProcess, spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { runCli } from '../support/cli.ts';
import {
  type OpenDaemon,
  openDaemon,
  removeTree,
  repository,
  ringfence,
  temporaryDir,
  until,
} from '../support/daemon.ts';

/** A project with a copy of the example, in which the package is installed. */
class Project implements Disposable {
  readonly folder = temporaryDir('example');
  readonly #name: string;

  constructor(name: string, files: Readonly<Record<string, string>> = {}) {
    this.#name = name;
    cpSync(join(repository, 'examples', name), this.folder, { recursive: true });
    mkdirSync(join(this.folder, 'node_modules'));
    symlinkSync(repository, join(this.folder, 'node_modules/ringfence'));
    writeFileSync(join(this.folder, 'package.json'), '{"type": "module", "private": true}');
    for (const [path, content] of Object.entries(files)) {
      mkdirSync(dirname(join(this.folder, path)), { recursive: true });
      writeFileSync(join(this.folder, path), content);
    }
  }

  daemon(otherwise = 'version: 1\n'): Promise<OpenDaemon> {
    const path = join(this.folder, 'ringfence.yaml');
    const policy = existsSync(path) ? readFileSync(path, 'utf8') : otherwise;
    return openDaemon({ workspace: this.folder, policy });
  }

  begin(args: readonly string[]): ChildProcess {
    const env = { PATH: process.env.PATH ?? '', HOME: '/nonexistent' };
    return spawn(process.execPath, args, { cwd: this.folder, env, stdio: ['pipe', 'pipe', 'pipe'] });
  }

  async run(...args: readonly string[]): Promise<{ code: number | null; stdout: string; stderr: string }> {
    const child = this.begin(args);
    const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
    const [code, stdout, stderr] = await Promise.all([
      ended,
      text(child.stdout as NodeJS.ReadableStream),
      text(child.stderr as NodeJS.ReadableStream),
    ]);
    return { code, stdout, stderr };
  }

  read(path: string): string {
    return readFileSync(join(this.folder, path), 'utf8');
  }

  /** What the README shows between lines of a console. */
  get readme(): string {
    return readFileSync(join(repository, 'examples', this.#name, 'README.md'), 'utf8');
  }

  [Symbol.dispose](): void {
    removeTree(this.folder);
  }
}

const testOf = (module: string, body: string) =>
  `import unittest\nimport ${module}\n\nclass Test(unittest.TestCase):\n    def test(self):\n        ${body}\n`;

describe('examples', () => {
  test('coding-agent: mends what it was asked to, in 60 lines', async () => {
    using project = new Project('coding-agent', {
      'sum.py': 'def sum(a, b):\n    return a - b\n',
      'test_sum.py': testOf('sum', 'self.assertEqual(sum.sum(2, 3), 5)'),
    });
    await using daemon = await project.daemon();
    const run = await project.run('agent.ts', daemon.socket, project.folder);
    expect(run).toMatchObject({ code: 0, stderr: '' });
    expect(run.stdout).toContain('the tests pass');
    expect(run.stdout).not.toMatch(/→ [A-Z]/);
    expect(project.read('sum.py')).toContain('a + b');
    const lines = project.read('agent.ts').split('\n').length + project.read('model.ts').split('\n').length;
    expect(lines).toBeLessThanOrEqual(72);
    expect(project.read('agent.ts').split('\n').length).toBeLessThanOrEqual(60);
  });

  test('ci-repair: the job mends, is denied nothing, and keeps its record', async () => {
    using project = new Project('ci-repair', {
      'greet.py': 'def greet():\n    return "Helo"\n',
      'test_greet.py': testOf('greet', 'self.assertEqual(greet.greet(), "Hello")'),
    });
    const args = ['ci', '--policy', 'ringfence.yaml', '--', process.execPath, 'repair.ts'];
    const run = await project.run(ringfence, ...args);
    expect(run).toMatchObject({ code: 0 });
    expect(run.stdout).toContain('mended; the change is in the working tree, for a pull request');
    expect(run.stderr).toContain('3 calls: 0 failed, 0 denied, 0 left open');
    expect(project.readme).toContain('3 calls: 0 failed, 0 denied, 0 left open');
    expect(project.read('greet.py')).toContain('Hello');
  });

  test('data-analyst: one program over the tools gives the answer, and not the rows', async () => {
    using project = new Project('data-analyst');
    expect(await project.run('make-sales.ts')).toMatchObject({ code: 0 });
    await using daemon = await project.daemon();
    const added = await runCli(daemon, ['database', 'add', 'sales', '--kind', 'duckdb', '--path', 'sales']);
    expect(added).toMatchObject({ code: 0 });
    const run = await project.run('analyst.ts', daemon.socket, project.folder);
    expect(run).toMatchObject({ code: 0 });
    expect(project.readme).toContain(run.stdout.trim());
    expect(project.read('report.md')).toBe('- Ada: 70 %\n- Bob: 25 %\n');
  });

  test('approval-bot: the agent waits for the person, and reads why not', async () => {
    using project = new Project('approval-bot');
    await using daemon = await project.daemon('extends: careful\n');
    const bot = project.begin(['bot.ts', daemon.socket, daemon.stateDir]);
    let said = '';
    bot.stdout?.on('data', (piece: Buffer) => (said += piece.toString()));
    const ended = new Promise((resolve) => bot.once('exit', resolve));
    await until(() => said.includes('waiting for questions'));
    const running = project.run('agent.ts', daemon.socket, project.folder);
    await until(() => said.includes('staging') && said.includes('[y/n/why not]'));
    bot.stdin?.write('y\n');
    await until(() => said.includes('production'));
    bot.stdin?.write('not before Monday\n');
    const run = await running;
    expect(run).toMatchObject({ code: 0 });
    expect(run.stdout).toMatch(/^deployed to staging\nAPPROVAL_DENIED: .*not before Monday/);
    bot.stdin?.end();
    expect(await ended).toBe(0);
  });

  test('from-child-process: the same function, without what it should not reach', async () => {
    using project = new Project('from-child-process', { '.env': 'SECRET=1\n' });
    expect((await project.run('before.ts')).stdout).toBe('hello\nSECRET=1\n');
    await using daemon = await project.daemon();
    const after = await project.run('after.ts', daemon.socket, project.folder);
    expect(after.code).toBe(0);
    expect(after.stdout).toBe('hello\ncat: .env: Permission denied\n');
    expect(after.stdout).not.toContain('SECRET=1');
  });

  test('plugins: their tests, which use nothing but ringfence/testing, pass', async () => {
    using project = new Project('plugins');
    const run = await project.run('--test', '--test-reporter=tap', 'plugins.test.js');
    expect(run.stdout).toMatch(/^# pass 3$/m);
    expect(run.code).toBe(0);
  });
});
