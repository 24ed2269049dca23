/** Races against an approval: somebody who can write tries to change what was approved between question, answer and start. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Client, RunningCall } from '../../src/client/client.ts';
import type { Approval } from '../../src/store/approvals/approval.ts';
import { type OpenDaemon, openDaemon, until } from '../support/daemon.ts';

const POLICY = `extends: careful
rules:
  - id: ask-about-notes
    match: { write: "notes/**" }
    decision: ask
    reason: Notes are the person's.
  - id: ask-about-reading
    match: { read: "private/**" }
    decision: ask
    reason: It is private.
`;

let daemon: OpenDaemon;
let agent: Client;
let operator: Client;
beforeAll(async () => {
  daemon = await openDaemon({ policy: POLICY });
  agent = await daemon.connect();
  operator = await daemon.connect({ role: 'operator' });
  mkdirSync(join(daemon.workspace, 'notes'));
});
afterAll(async () => {
  await agent[Symbol.asyncDispose]();
  await operator[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

const at = (path: string) => join(daemon.workspace, path);
const pending = async (): Promise<Approval[]> =>
  ((await operator.request('approvals.list', {})) as { approvals: Approval[] }).approvals;

async function asked({ callId }: RunningCall<unknown>): Promise<Approval> {
  let found: Approval | undefined;
  await until(async () => {
    found = (await pending()).find((it) => it.callId === callId);
    return found !== undefined;
  });
  return found as Approval;
}

const approve = (approvalId: string, more: object = {}) =>
  operator.request('approvals.resolve', { approvalId, decision: 'approve', ...more });
const run = (command: string, more: object = {}) => agent.call('terminal_execute', { command, ...more });

test('a script that is swapped after the yes, while the host is made ready, does not run', async () => {
  writeFileSync(at('run.sh'), 'echo good > ran');
  const call = run('sh run.sh');
  const { approvalId } = await asked(call);
  // The first command of this daemon: its host starts only after the approval, which takes tens of milliseconds.
  await approve(approvalId);
  writeFileSync(at('run.sh'), 'echo evil > ran');
  expect(await call).toMatchObject({ error: { code: 'APPROVAL_STALE' } });
  expect(existsSync(at('ran'))).toBe(false);
});

test('a call that turned out stale is not said to be approved', async () => {
  writeFileSync(at('notes/n.txt'), 'one\n');
  const call = agent.call('file_write', { path: 'notes/n.txt', content: 'two\n' });
  const { approvalId } = await asked(call);
  writeFileSync(at('notes/n.txt'), 'other\n');
  await approve(approvalId);
  const result = await call;
  expect(result).toMatchObject({ error: { code: 'APPROVAL_STALE' } });
  expect(result.metadata.approvalGranted).toBeUndefined();
  expect(readFileSync(at('notes/n.txt'), 'utf8')).toBe('other\n');
});

test('a policy that denies by now reaches calls that wait for their place', async () => {
  const tier = 'tiers:\n  execute: { decision: allow }\n';
  await using busy = await openDaemon({ policy: tier, limits: { hostCommandsMax: 1 } });
  await using client = await busy.connect();
  await using boss = await busy.connect({ role: 'operator' });
  const gate = join(busy.workspace, 'gate');
  execFileSync('mkfifo', [gate]);
  const first = client.call('terminal_execute', { command: 'cat gate' });
  const second = client.call('terminal_execute', { command: 'touch denied' });
  await until(async () => (await client.record(first.callId)).state.status === 'in-progress');
  writeFileSync(join(busy.stateDir, 'policy.yaml'), tier.replace('allow', 'deny'));
  expect(await boss.request('policy.reload', {})).toEqual({ ok: true, problems: [] });
  writeFileSync(gate, 'go');
  expect(await first).toMatchObject({ success: true });
  expect(await second).toMatchObject({ error: { code: 'POLICY_DENIED', rule: 'tiers.execute.decision' } });
  expect(existsSync(join(busy.workspace, 'denied'))).toBe(false);
});

test.each<[string, () => void, () => void, () => RunningCall<unknown>]>([
  [
    'a link to a directory that leads elsewhere by now',
    () => {
      for (const it of ['a', 'b']) mkdirSync(at(it), { recursive: true });
      writeFileSync(at('b/precious'), '');
      symlinkSync('a', at('link'));
    },
    () => {
      rmSync(at('link'));
      symlinkSync('b', at('link'));
    },
    () => run('rm -rf *', { cwd: 'link' }),
  ],
  [
    'the 70th file that is named',
    () => writeFileSync(at('late.sh'), 'touch evil'),
    () => writeFileSync(at('late.sh'), 'touch evil '),
    () => run(`true ${Array.from({ length: 70 }, (_, n) => `n${n}`).join(' ')}; sh late.sh`),
  ],
  [
    'a file that only a glob names',
    () => writeFileSync(at('glob.sh'), 'touch evil'),
    () => writeFileSync(at('glob.sh'), 'touch evil '),
    () => run('sh glo*.sh'),
  ],
  [
    'one more file that a glob finds',
    () => writeFileSync(at('list1.sh'), 'true'),
    () => writeFileSync(at('list0.sh'), 'touch evil'),
    () => run('sh list*.sh'),
  ],
  [
    'a Makefile that make reads by itself',
    () => writeFileSync(at('Makefile'), 'all:\n\ttrue\n'),
    () => writeFileSync(at('Makefile'), 'all:\n\ttouch evil\n'),
    () => run('make'),
  ],
  ...['make -C sub', 'make --directory=sub', 'cd sub && make'].map(
    (line): [string, () => void, () => void, () => RunningCall<unknown>] => [
      `a Makefile in the directory that \`${line}\` names`,
      () => {
        mkdirSync(at('sub'), { recursive: true });
        writeFileSync(at('sub/Makefile'), 'all:\n\ttrue\n');
      },
      () => writeFileSync(at('sub/Makefile'), 'all:\n\ttouch ../evil\n'),
      () => run(line),
    ],
  ),
  ...(
    [
      ['python3 -m pkg.mod', 'pkg/mod.py'],
      ['cd lib && python3 -mpkg.mod', 'lib/pkg/__init__.py'],
      ['python3 tool', 'tool/__main__.py'],
      ['node app', 'app/index.js'],
      ['node app2', 'app2/package.json'],
    ] as const
  ).map(([line, file]): [string, () => void, () => void, () => RunningCall<unknown>] => [
    `the file ${file} that \`${line}\` runs`,
    () => {
      mkdirSync(dirname(at(file)), { recursive: true });
      writeFileSync(at(file), '');
    },
    () => writeFileSync(at(file), 'evil'),
    () => run(line),
  ]),
])('%s makes a yes stale', async (_, before, between, call) => {
  before();
  const running = call();
  const { approvalId, impact } = await asked(running);
  if (_.startsWith('a link')) expect(impact.warnings).toContain(`Runs in ${at('a')}`);
  between();
  await approve(approvalId);
  expect(await running).toMatchObject({ error: { code: 'APPROVAL_STALE' } });
  expect(existsSync(at('evil'))).toBe(false);
});

describe('a yes to code that the person was not shown', () => {
  const script = () => {
    writeFileSync(at('main.sh'), '. ./lib.sh\n');
    writeFileSync(at('lib.sh'), 'true\n');
    return run('bash main.sh');
  };
  const write = (path: string, content: string) => agent.call('file_write', { path, content });

  test('a yes to code that was not shown is stale if its asker wrote since the question, from another session too', async () => {
    for (const who of [agent, await daemon.connect()]) {
      const call = script();
      const { approvalId, impact } = await asked(call);
      expect(impact.description).toContain('not shown');
      expect(await who.call('file_write', { path: 'lib.sh', content: 'touch evil\n' })).toMatchObject({
        success: true,
      });
      await approve(approvalId);
      expect(await call).toMatchObject({
        error: { code: 'APPROVAL_STALE', message: expect.stringContaining('other calls of the same agent') },
      });
      expect(existsSync(at('evil'))).toBe(false);
      if (who !== agent) await who[Symbol.asyncDispose]();
    }
  });

  test('a yes to code that was not shown is stale if a command of its asker ran meanwhile, and holds if it only read', async () => {
    const looked = script();
    const { approvalId } = await asked(looked);
    expect(await run('cat lib.sh')).toMatchObject({ success: true });
    expect(await agent.call('file_read', { path: 'lib.sh' })).toMatchObject({ success: true });
    await approve(approvalId);
    expect(await looked).toMatchObject({ success: true });

    const first = run('touch made');
    const firstAsked = await asked(first);
    const call = script();
    const second = await asked(call);
    await approve(firstAsked.approvalId);
    expect(await first).toMatchObject({ success: true });
    await approve(second.approvalId);
    expect(await call).toMatchObject({ error: { code: 'APPROVAL_STALE' } });
  });

  test('a yes to code that was not shown does not count for the same call made again after its asker wrote', async () => {
    const parked = script();
    const { approvalId } = await asked(parked);
    await agent.request('calls.cancel', { callId: parked.callId, park: true });
    expect(await parked).toMatchObject({ error: { code: 'APPROVAL_REQUIRED' } });
    await write('lib.sh', 'touch evil\n');
    await approve(approvalId);
    const again = run('bash main.sh');
    const anew = await asked(again);
    expect(anew.approvalId).not.toBe(approvalId);
    await operator.request('approvals.resolve', { approvalId: anew.approvalId, decision: 'deny' });
    await again;
    expect(existsSync(at('evil'))).toBe(false);
  });

  test('a yes to a workspace program run by its own name is stale if a file beside the program changed', async () => {
    writeFileSync(at('cat'), '#!/bin/sh\n. ./lib.sh\n', { mode: 0o755 });
    writeFileSync(at('lib.sh'), 'true\n');
    const call = run('./cat x');
    const { approvalId, impact } = await asked(call);
    expect(impact.description).toContain('not shown');
    await write('lib.sh', 'touch evil\n');
    await approve(approvalId);
    expect(await call).toMatchObject({ error: { code: 'APPROVAL_STALE' } });
  });
});

test('a preview shows nothing of a file that a person would be asked about for reading', async () => {
  mkdirSync(at('private'));
  writeFileSync(at('private/p.txt'), 'a private line\n');
  const preview = await agent.call('file_write', { path: 'private/p.txt', content: 'x' }, { preview: true });
  expect(preview).toMatchObject({ success: true, data: { preImages: [{ path: 'private/p.txt' }] } });
  expect(JSON.stringify(preview)).not.toContain('a private line');
});
