/** Ordinary names in code do not count as secrets; no secret can be renamed to such a name, or read through one. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';

const SECRET = 'hunter2-by-another-name';
const SECRETS = [
  'client_secret.json',
  'conf/passwords.txt',
  'conf/private-key.json',
  'secrets/production.yaml',
  'src/credentials.ts.bak',
  'ops/passwords/team.json',
  '.passwords/production',
  '.secret/token',
  'private_keys/ci',
  'Credentials/production.json',
];
const CODE = [
  'src/same-secret.ts',
  'src/aws-credentials.ts',
  'test/secrets.test.ts',
  'src/secrets/index.ts',
  'docs/password.md',
  'packages/password-reset/package.json',
  'src/secrets-manager/settings.json',
  'src/credentials/index.ts',
  'src/password/en.json',
  'src/secret/rules.json',
];

let daemon: TestDaemon;
let client: Client;
beforeAll(async () => {
  daemon = await startDaemon();
  client = await daemon.connect();
  for (const [paths, text] of [
    [SECRETS, SECRET],
    [CODE, 'export {};\n'],
  ] as const)
    for (const path of paths) {
      mkdirSync(dirname(join(daemon.workspace, path)), { recursive: true });
      writeFileSync(join(daemon.workspace, path), text);
    }
});
afterAll(() => daemon[Symbol.asyncDispose]());

async function run(command: string): Promise<string> {
  const result = await client.call('terminal_execute', { command });
  return JSON.stringify(result);
}

test.each(CODE)('%s is read, changed, searched and copied as any other file', async (path) => {
  expect(await client.call('file_read', { path })).toMatchObject({ success: true, data: { content: 'export {};\n' } });
  expect(await run(`cat ${path} && grep -rn export ${path} && cp -a ${path} copy && rm copy`)).toContain(
    '"exitCode":0',
  );
});

test('a word to search for runs, and finds nothing in a file that is hidden', async () => {
  expect(await run('grep -rn password docs; echo done')).toContain('done');
  for (const command of [
    'grep -rn x client_secret.json',
    'grep -e password conf/passwords.txt',
    'grep -f conf/passwords.txt src',
  ])
    expect(await run(`${command}; echo done`)).toMatch(/Permission denied[\s\S]*done|done[\s\S]*Permission denied/);
});

test.each(SECRETS)('%s is read by no tool and no command, under no other name', async (path) => {
  expect(await client.call('file_read', { path })).toMatchObject({ success: false });
  const name = 'src/plain.ts';
  for (const tool of ['file_rename', 'file_copy'] as const) {
    const input = tool === 'file_rename' ? { oldPath: path, newPath: name } : { sourcePath: path, destPath: name };
    expect(await client.call(tool, input as never)).toMatchObject({ success: false });
  }
  const folder = dirname(path) === '.' ? path : dirname(path);
  // Written so that the words don't show the name: only the sandbox is in the way.
  const spelled = `${path.slice(0, 3)}''${path.slice(3)}`;
  const script = [
    `p="$(echo ${spelled.replaceAll(/[aeiou]/g, '?')})"`,
    'mv "$p" src/plain.ts; cp "$p" src/plain.ts; ln "$p" src/plain.ts; ln -s "../$p" src/linked.ts',
    `f="$(echo ${folder.replaceAll(/[aeiou]/g, '?')})"; mv "$f" open; mv "$f" src/docs.md`,
    'git init -q . ; git add -f "$p"; git mv -f "$p" src/moved.ts; git stash; git show ":$p"',
    'cat src/plain.ts src/linked.ts open/* src/docs.md/* src/moved.ts',
  ].join('; ');
  expect(await run(script)).not.toContain(SECRET);
  expect(await run('cat src/*.ts open/* src/docs.md/* */*.md; git cat-file --batch-all-objects --batch')).not.toContain(
    SECRET,
  );
  expect(JSON.stringify(await client.call('file_read', { path: 'src/linked.ts' }))).not.toContain(SECRET);
  expect(readFileSync(join(daemon.workspace, path), 'utf8')).toBe(SECRET);
  await run('rm -rf .git src/linked.ts src/plain.ts');
});
