/** Attacks on previews: reaching what masks hide, and the workspace itself, through the overlay and its commit. */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { CommitResult, ToolResult } from '../../src/base/call.ts';
import type { CommandPreview } from '../../src/base/preview.ts';
import type { Client } from '../../src/client/client.ts';
import { shownFolders } from '../../src/services/toolchains/installed.ts';
import { startDaemon, type TestDaemon } from '../support/daemon.ts';
import { treeWithModes } from '../support/workspace.ts';

let daemon: TestDaemon;
let client: Client;

beforeAll(async () => {
  daemon = await startDaemon({
    policy: 'rules:\n  - { id: theirs, match: { write: "theirs/**" }, decision: deny, reason: Not theirs. }\n',
  });
  mkdirSync(at('conf'));
  mkdirSync(at('theirs'));
  writeFileSync(at('.env'), 'TOKEN=hidden-value');
  writeFileSync(at('conf/prod.env'), 'TOKEN=hidden-value');
  writeFileSync(at('theirs/kept'), 'kept');
  writeFileSync(at('open'), 'open');
  client = await daemon.connect();
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

const at = (path: string) => join(daemon.workspace, path);
/** The policy judges the words of a command; here only `bash` is one. */
const run = (script: string) =>
  client.call(
    'terminal_execute',
    { command: 'bash 2>&1; true', stdin: script },
    { preview: true },
  ) as unknown as Promise<ToolResult<{ stdout: string; stderr: string }> & { preview: CommandPreview }>;
const commit = (previewId: string, paths?: string[]) =>
  client.request('calls.commit', { previewId, ...(paths && { paths }) }) as Promise<CommitResult>;

test("a command can't read, move or replace masked files, in the overlay or by a commit", async () => {
  const before = treeWithModes(daemon.workspace);
  const tries = [
    'cat .env conf/prod.env',
    'mv conf moved; cat moved/prod.env',
    'cp -a conf copied; cat copied/prod.env',
    'ln .env hard; cat hard',
    'rm -rf conf; mkdir conf; cat conf/prod.env',
    'tar cf - . | grep -a hidden-value',
    'umount .env; umount .; cat .env',
    'unshare -Ur sh -c "umount .env; cat .env"',
    'nsenter -t 1 -m cat .env',
    'cat /proc/1/rootprod.envWD/.env /proc/*/cwd/.env',
    'cat /run/ringfence/previews/*/upper/.env; ls -laR /run/ringfence',
    'echo mine > .env; echo mine > conf/prod.env; rm -f .env',
    'rm theirs/kept; echo x > theirs/kept; echo x > theirs/new; mv theirs gone',
  ];
  for (const it of tries) {
    const result = await run(it);
    expect(JSON.stringify(result), it).not.toContain('hidden-value');
    expect(result, it).toMatchObject({ success: true });
    expect(
      result.preview.changes.filter(({ path }) => /env|theirs/.test(path) && !/^(copied|moved)/.test(path)),
      it,
    ).toEqual([]);
    expect(treeWithModes(daemon.workspace), it).toEqual(before);
    await client.request('calls.discard', { previewId: result.preview.id });
  }
});

test('the command learns nothing of the state directory but where toolchains are, and no other command sees the overlay', async () => {
  const result = await run(
    'cat /proc/self/mountinfo /proc/self/mounts; cat /proc/*/cmdline | tr "\\0" " "; touch mark',
  );
  expect(result.success && result.data.stdout).toContain('overlay');
  // Commands see the folders of toolchains, also the empty ones, so that they find what is added later; mountinfo tells
  // where their passwd and group come from.
  const shown = [...shownFolders(daemon.stateDir), `${daemon.stateDir}/accounts`].reduce(
    (text, it) => text.replaceAll(it, ''),
    JSON.stringify(result),
  );
  expect(shown).not.toContain(daemon.stateDir);
  const names = await client.call('terminal_execute', { command: `ls -A ${daemon.stateDir}` });
  expect(names.success && names.data.stdout).toBe('toolchain-programs\ntoolchains\n');
  const plain = await client.call('terminal_execute', { command: 'cat /proc/self/mountinfo; ls; ls -R /run' });
  expect(JSON.stringify(plain)).not.toMatch(/overlay|mark|previews/);
});

test('paths that lead elsewhere by now are conflicts: a commit follows no link', async () => {
  const outside = `${daemon.stateDir}/outside`;
  mkdirSync(outside);
  mkdirSync(at('in/deep'), { recursive: true });
  const result = await run('echo x > in/deep/new; ln -s ../../../../../../../../../etc in/etc; echo y > in/y');
  renameSync(at('in/deep'), at('in/was'));
  symlinkSync(outside, at('in/deep'));
  const done = await commit(result.preview.id);
  expect(done.error?.code ?? done.conflicts).toSatisfy((it: unknown) => it === 'ACCESS_DENIED' || Array.isArray(it));
  expect(done.committed).toEqual([]);
  expect(readdirSync(outside)).toEqual([]);
});

test('the diff of a change is for those who may read the file, and names only what changed', async () => {
  const result = await run('echo SECRET=1 > new.env; echo x > open; ln -s /etc/passwd link');
  const { id } = result.preview;
  expect(result.preview.changes.find(({ path }) => path === 'new.env')?.diff).toBeUndefined();
  const diff = (path: string) =>
    client.request('calls.diff', { previewId: id, path }) as Promise<{ diff?: string; error?: object }>;
  expect(await diff('new.env')).toMatchObject({ error: { code: 'SENSITIVE_FILE' } });
  for (const path of ['.env', 'conf/prod.env', '../outside', '/etc/passwd', 'link/x', 'theirs/kept', '.', 'open/..'])
    expect(await diff(path), path).toMatchObject({ error: { code: expect.any(String) as string } });
  expect((await diff('link')).diff).toBeUndefined();
  expect((await diff('open')).diff).toContain('+x');
  // A commit is judged by its paths, whatever the command was allowed.
  expect(await commit(id)).toMatchObject({ error: { code: 'SENSITIVE_FILE' } });
  expect(existsSync(at('new.env'))).toBe(false);
  expect(await commit(id, ['open'])).toMatchObject({ conflicts: [] });
  expect(readFileSync(at('open'), 'utf8')).toBe('x\n');
});

test('setuid bits and unreadable parts are not taken over', async () => {
  const result = await run(
    'cp /bin/true tool; chmod 4755 tool; chmod u+s tool; mkdir shut; echo x > shut/f; chmod 000 shut; true',
  );
  const { changes, unsupported } = result.preview;
  expect(unsupported.map(({ path }) => path)).toContain('shut');
  const tool = changes.find(({ path }) => path === 'tool');
  if (tool) expect(await commit(result.preview.id, ['tool'])).toMatchObject({ conflicts: [] });
  if (tool) expect(treeWithModes(daemon.workspace).tool?.startsWith('4')).toBe(false);
});
