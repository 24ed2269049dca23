/** An agent for which a person opened a door gets through that one alone. */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Client } from '../../src/client/client.ts';
import type { Approval } from '../../src/store/approvals/approval.ts';
import { dataOf, startDaemon, type TestDaemon, until } from '../support/daemon.ts';
import { answerAccess } from '../support/doors.ts';

let daemon: TestDaemon;
let operator: Client;
let client: Client;
let outside: string;
const SECRET = 'hidden-value';

beforeAll(async () => {
  daemon = await startDaemon();
  operator = await daemon.connect({ role: 'operator' });
  // The sandbox has a /tmp of its own, and a checkout may lie in the machine's.
  outside = mkdtempSync('/var/tmp/ringfence-outside-');
});
afterAll(async () => {
  await operator[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
  rmSync(outside, { recursive: true });
});
beforeEach(async () => {
  client = await daemon.connect();
  for (const name of ['config', 'conf.d']) mkdirSync(join(daemon.workspace, name), { recursive: true });
  writeFileSync(join(daemon.workspace, '.env'), 'KEY=one\n');
  writeFileSync(join(daemon.workspace, 'config/.env'), `KEY=${SECRET}\n`);
  return async () => {
    await operator.request('approvals.revoke', { all: true });
    await client[Symbol.asyncDispose]();
  };
});

const open = (path: string) =>
  answerAccess(
    { path },
    { decision: 'approve', remember: { scope: 'session', match: 'door' } },
    { by: client, operator },
  );
/** All that a command says, the error of its call included. */
const said = async (command: string) => JSON.stringify(await client.call('terminal_execute', { command }));

describe('a yes for a hidden file', () => {
  test.each([
    ['a link', 'rm -f .env; ln -s config/.env .env'],
    ['a hard link', 'rm -f .env; ln config/.env .env'],
    ['an exchange', 'mv config/.env .env; mv -T --exchange config/.env .env; cp config/.env .env'],
    ['a folder in its place', 'rm -f .env; mv config .env'],
    ['a mount', 'unshare -rm sh -c "mount --bind config/.env .env; cat .env"'],
  ])('the answer shows no other file: %s', async (_, command) => {
    await open('.env');
    expect(await said('cat .env')).toContain('KEY=one');
    expect(await said(`${command}; cat .env .env/.env`)).not.toContain(SECRET);
    expect(await said('cat .env .env/.env config/.env')).not.toContain(SECRET);
    for (const path of ['.env', '.env/.env', 'config/.env'])
      expect(JSON.stringify(await client.call('file_read', { path })), path).not.toContain(SECRET);
    rmSync(join(daemon.workspace, '.env'), { recursive: true, force: true });
  });

  test('a question names the file that a path leads to, not for what an agent calls it', async () => {
    await said('ln -sfn config conf; ln -sf ../config/.env conf.d/plain');
    for (const path of ['conf/.env', 'conf.d/../config/.env', './config//.env']) {
      const { asked } = await answerAccess({ path }, { decision: 'deny' }, { by: client, operator });
      expect(asked.door?.target).toMatch(/^(?:config|conf)\/\.env$/);
      await operator.request('approvals.revoke', { all: true });
    }
    expect(await client.call('access_request', { path: 'conf.d/plain' })).toMatchObject({ success: false });
    expect(await said('cat conf.d/plain conf/.env')).not.toContain(SECRET);
  });
});

describe('a yes for a folder outside', () => {
  beforeEach(() => {
    mkdirSync(join(outside, 'own'), { recursive: true });
    mkdirSync(join(outside, 'other'), { recursive: true });
    writeFileSync(join(outside, 'own/shared.txt'), 'shared\n');
    writeFileSync(join(outside, 'other/secret.txt'), SECRET);
    rmSync(join(outside, 'own/link'), { force: true });
    symlinkSync('../other', join(outside, 'own/link'));
  });

  test('the answer shows that folder and changes nothing in it', async () => {
    const own = join(outside, 'own');
    await open(own);
    expect(await said(`cat ${own}/shared.txt`)).toContain('shared');
    const tries = [
      `cat ${own}/link/secret.txt ${own}/../other/secret.txt`,
      `ls ${outside} ${outside}/other; cat /proc/self/root${outside}/other/secret.txt`,
      `echo x > ${own}/shared.txt; chmod 777 ${own}/shared.txt; touch ${own}/new; rm -f ${own}/shared.txt`,
      `ln ${own}/shared.txt linked && echo x > linked; mv ${own}/shared.txt moved`,
      `mount -o remount,rw ${own}; unshare -rm mount -o remount,rw,bind ${own}; echo x > ${own}/new`,
    ];
    for (const it of tries) expect(await said(it), it).not.toContain(SECRET);
    expect(readFileSync(join(own, 'shared.txt'), 'utf8')).toBe('shared\n');
    expect(existsSync(join(own, 'new'))).toBe(false);
  });

  test('a question names the folder that a link leads to', async () => {
    rmSync(join(daemon.workspace, 'inner'), { force: true });
    symlinkSync(join(outside, 'other'), join(daemon.workspace, 'inner'));
    symlinkSync('/root', join(daemon.workspace, `home-${process.pid}`));
    const refused = await client.call('access_request', { path: `home-${process.pid}` });
    expect(refused).toMatchObject({ success: false });
    expect(await client.call('access_request', { path: 'inner' })).toMatchObject({ success: false });
    const { asked } = await answerAccess(
      { path: `${outside}/own/link` },
      { decision: 'deny' },
      { by: client, operator },
    );
    expect(asked.door).toEqual({ kind: 'path', target: join(outside, 'other') });
  });
});

test('a yes for a host opens no other port, name or machine', async () => {
  const status = (address: string) =>
    client.call('terminal_execute', {
      command: `curl -s -p --noproxy '' -o /dev/null -w '%{http_connect}' ${address}; true`,
    });
  const questions = async () =>
    ((await operator.request('approvals.list', {})) as { approvals: Approval[] }).approvals.filter((it) => it.door);
  const answer = async (call: ReturnType<typeof status>, decision: 'approve' | 'deny') => {
    await until(async () => (await questions()).length > 0);
    const [asked] = await questions();
    await operator.request('approvals.resolve', {
      approvalId: asked?.approvalId,
      decision,
      ...(decision === 'approve' && { remember: { scope: 'session', match: 'door' } }),
    });
    return { target: asked?.door?.target, code: (await dataOf<{ stdout: string }>(call)).stdout };
  };
  await operator.request('events.subscribe', { topics: ['approvals'] });
  // Names of `.invalid` are in no DNS, so 502 says that the door was open.
  expect(await answer(status('https://one.invalid'), 'approve')).toEqual({ target: 'one.invalid:443', code: '502' });
  expect(await answer(status('https://one.invalid:8443'), 'deny')).toEqual({ target: 'one.invalid:8443', code: '403' });
  expect(await answer(status('https://two.invalid'), 'deny')).toEqual({ target: 'two.invalid:443', code: '403' });
  for (const never of ['127.0.0.1', '169.254.169.254', '10.0.0.1', '[::1]', 'localhost', '0x7f.1'])
    expect((await dataOf<{ stdout: string }>(status(`https://${never}`))).stdout, never).toBe('403');
  expect(await questions()).toEqual([]);
});
