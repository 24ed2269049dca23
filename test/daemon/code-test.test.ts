/** code_test through a real daemon, with runners of this machine: tests that pass, fail, crash, hang and lie. */
import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { type OpenDaemon, openDaemon, repository } from '../support/daemon.ts';

let daemon: OpenDaemon;
let client: Client;
beforeAll(async () => {
  daemon = await openDaemon();
  client = await daemon.connect();
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});
beforeEach(() => {
  for (const it of ['t', 'node_modules/vitest', 'package.json', 'vitest.config.mjs'])
    rmSync(join(daemon.workspace, it), { recursive: true, force: true });
});

function put(tree: Record<string, string>): void {
  for (const [path, text] of Object.entries(tree)) {
    mkdirSync(dirname(join(daemon.workspace, path)), { recursive: true });
    writeFileSync(join(daemon.workspace, path), text);
  }
}
const run = async (input: object = {}, options: object = {}) =>
  (await client.call('code_test' as string, input, options)) as unknown as { success: boolean; data: object };

const NODE_TEST = `const { test, describe } = require('node:test');
const assert = require('node:assert');
`;

describe('node --test', () => {
  beforeEach(() => put({ 'package.json': '{ "scripts": { "test": "node --test t" } }' }));

  test('gives counts and failures with file, line, expected and actual', async () => {
    put({
      't/a.test.js': `${NODE_TEST}test('passes', () => {});
describe('group', () => {
  test('fails <&>', () => {
    assert.strictEqual(1 + 1, 3);
  });
  test('is left out', { skip: true }, () => {});
});
`,
    });
    const { data } = await run();
    expect(data).toMatchObject({ runner: 'node', passed: 1, failed: 1, skipped: 1, exitCode: 1 });
    expect(data).toMatchObject({
      failures: [
        { name: expect.stringMatching(/fails <&>$/), file: 't/a.test.js', line: 6, expected: '3', actual: '2' },
      ],
    });
    expect(data).not.toHaveProperty('inconsistent');
    expect((await run({ paths: ['t/a.test.js'], filter: '^passes$' })).data).toMatchObject({ failed: 0, exitCode: 0 });
  });

  test('counts by the report, whatever tests print', async () => {
    put({
      't/lies.test.js': `${NODE_TEST}test('prints', () => { console.log('# pass 99\\n</testsuites><testsuite><testcase name="no"/></testsuite>'); });
test('fails', () => { assert.ok(false); });
`,
    });
    expect((await run()).data).toMatchObject({ passed: 1, failed: 1, exitCode: 1 });
  });

  test('shows what it does while it runs', async () => {
    put({
      't/waits.test.js': `${NODE_TEST}const { existsSync } = require('node:fs');
test('came first', () => {});
test('waits', async () => { while (!existsSync('t/go')) await new Promise((it) => setTimeout(it, 20)); });
`,
    });
    const running = client.call('code_test' as string, {}, { progress: true });
    let shown = '';
    for await (const it of running) {
      if (it.kind === 'output') shown += Buffer.from(it.data).toString();
      if (shown.includes('came first')) put({ 't/go': '' });
    }
    expect(await running).toMatchObject({ success: true, data: { passed: 2, failed: 0 } });
  });

  test('tells a file that ends its process as failed', async () => {
    put({ 't/none.test.js': 'process.exit(3);' });
    const { data } = await run();
    expect(data).toMatchObject({ failed: 1, exitCode: 1 });
  });

  test('a hanging run of node --test ends with TIMEOUT, and leaves no process', async () => {
    put({ 't/hangs.test.js': `${NODE_TEST}test('hangs', () => new Promise(() => setInterval(() => {}, 1000)));` });
    expect(await run({ timeoutMs: 3_000 })).toMatchObject({ success: false, error: { code: 'TIMEOUT' } });
  });
});

/** Copies a package of this repository with its dependencies into the workspace. */
function install(name: string): void {
  const from = join(repository, 'node_modules', name);
  const to = join(daemon.workspace, 'node_modules', name);
  if (existsSync(to) || !existsSync(from)) return;
  cpSync(from, to, { recursive: true });
  const { dependencies = {}, optionalDependencies = {} } = JSON.parse(readFileSync(join(from, 'package.json'), 'utf8'));
  for (const it of Object.keys({ ...dependencies, ...optionalDependencies })) install(it);
}

describe('vitest', () => {
  beforeEach(() => {
    for (const it of ['vite', 'vitest']) install(it);
    const node = join(daemon.workspace, 'node_modules/.bin/node');
    if (!existsSync(node)) put({ 'node_modules/.bin/.keep': '' });
    if (!existsSync(node)) cpSync(process.execPath, node);
    const script = '#!/bin/bash\nexec node_modules/.bin/node node_modules/vitest/vitest.mjs "$@"\n';
    put({ 'node_modules/.bin/vitest': script, 'vitest.config.mjs': 'export default { test: { globals: true } };' });
    chmodSync(join(daemon.workspace, 'node_modules/.bin/vitest'), 0o755);
  });

  test('gives counts and failures, of files that can not be loaded, too', async () => {
    put({
      't/a.test.mjs':
        "test('passes', () => {});\ntest('fails', () => {\n  expect(1 + 1).toBe(3);\n});\ntest.skip('later', () => {});\n",
      't/broken.test.mjs': "import './missing.mjs';\ntest('never', () => {});\n",
    });
    const { data } = await run();
    expect(data).toMatchObject({ runner: 'vitest', passed: 1, failed: 2, skipped: 1, exitCode: 1 });
    expect(data).toMatchObject({
      failures: expect.arrayContaining([
        expect.objectContaining({ name: 'fails', file: 't/a.test.mjs', line: 3, expected: '3', actual: '2' }),
        expect.objectContaining({ file: 't/broken.test.mjs', message: expect.stringContaining('missing.mjs') }),
      ]),
    });
  });

  test('vitest with onlyChanged runs the tests of what git sees changed, and no others', async () => {
    put({
      '.gitignore': 'node_modules\n',
      't/one.mjs': 'export const one = 1;\n',
      't/one.test.mjs': "import { one } from './one.mjs';\ntest('one', () => expect(one).toBe(1));\n",
      't/two.test.mjs': "test('two', () => {});\n",
    });
    const git = (...args: string[]) => execFileSync('git', args, { cwd: daemon.workspace });
    git('init', '-q');
    git('-c', 'user.name=Ada', '-c', 'user.email=ada@example.org', 'add', '-A');
    git('-c', 'user.name=Ada', '-c', 'user.email=ada@example.org', 'commit', '-qm', 'first');
    put({ 't/one.mjs': 'export const one = 2;\n' });
    expect((await run({ onlyChanged: true })).data).toMatchObject({
      ...{ runner: 'vitest', passed: 0, failed: 1, skipped: 0 },
      failures: [{ name: 'one', file: 't/one.test.mjs', expected: '1', actual: '2' }],
    });
    expect((await run()).data).toMatchObject({ passed: 1, failed: 1 });
    for (const it of ['.git', '.gitignore']) rmSync(join(daemon.workspace, it), { recursive: true });
  });

  test('a vitest run that a test makes end with 0 although it failed is inconsistent', async () => {
    put({
      'vitest.config.mjs':
        "export default { test: { globals: true } };\nprocess.on('exit', () => { process.exitCode = 0; process.reallyExit(0); });",
    });
    put({ 't/lies.test.mjs': "test('fails', () => { expect(1).toBe(2); });\n" });
    expect((await run()).data).toMatchObject({
      failed: 1,
      exitCode: 0,
      inconsistent: expect.stringContaining('1 tests failed'),
    });
  });

  test('a hanging vitest run ends with TIMEOUT', async () => {
    put({ 't/hangs.test.mjs': "test('hangs', () => {\n  for (;;);\n});\n" });
    expect(await run({ timeoutMs: 8_000 })).toMatchObject({ success: false, error: { code: 'TIMEOUT' } });
  });

  test('a vitest run that crashes before its report is inconsistent, with its output', async () => {
    // Written at once: what console.error holds for a pipe is lost at the exit.
    const config = "import { writeSync } from 'node:fs'; writeSync(2, 'no way\\n'); process.exit(7);";
    put({ 'vitest.config.mjs': config, 't/a.test.mjs': "test('a', () => {});" });
    expect((await run()).data).toMatchObject({
      passed: 0,
      exitCode: 7,
      inconsistent: expect.stringContaining('wrote no complete report'),
      output: expect.stringContaining('no way'),
    });
  });
});

test('a run of tests is a command: a policy that denies commands denies it', async () => {
  await using asking = await openDaemon({ policy: 'tiers:\n  execute: { decision: deny }\n' });
  await using by = await asking.connect();
  writeFileSync(join(asking.workspace, 'go.mod'), 'module a\n');
  expect(await by.call('code_test' as string, {})).toMatchObject({ success: false, error: { code: 'POLICY_DENIED' } });
});
