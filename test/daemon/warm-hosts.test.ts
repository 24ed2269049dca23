/** The host of reads runs before the first session asks for it. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { dataOf, type OpenDaemon, openDaemon, removeTree, temporaryDir, until } from '../support/daemon.ts';

let daemon: OpenDaemon | undefined;
const folders: string[] = [];
afterEach(async () => {
  await daemon?.[Symbol.asyncDispose]();
  for (const it of folders.splice(0)) removeTree(it);
});

interface Status {
  readonly hosts: readonly { readonly tier: string; readonly pid: number; readonly restarts: number }[];
}

/** The hosts of reads, as an operator sees them, whose own session starts none of them anew. */
async function readers({ connect }: OpenDaemon): Promise<Status['hosts']> {
  await using operator = await connect({ role: 'operator' });
  const { hosts } = (await operator.request('status', {})) as Status;
  return hosts.filter(({ tier }) => tier === 'read_only');
}

const started = ({ log }: OpenDaemon): readonly string[] =>
  log()
    .split('\n')
    .filter((it) => it.includes('"tier":"read_only"') && it.includes('tier host ready'));

test('a host of reads is ready before anybody connects, and the first read runs in it', async () => {
  const idle = await openDaemon();
  daemon = idle;
  await until(() => started(idle).length === 1);
  expect(idle.log()).not.toContain('session opened');
  writeFileSync(join(daemon.workspace, 'a.txt'), 'a');
  await using client = await daemon.connect();
  await dataOf(client.call('file_read', { path: 'a.txt' }));
  const hosts = await readers(daemon);
  expect(hosts).toHaveLength(1);
  expect(started(daemon)).toHaveLength(1);
  expect(started(daemon)[0]).toContain(`"pid":${hosts[0]?.pid}`);
});

test('a session to which stricter path rules apply gets a host of its own', async () => {
  daemon = await openDaemon();
  const { workspace } = daemon;
  mkdirSync(join(workspace, '.ringfence'));
  const rule = '{ id: kept, match: { path: "kept/**" }, decision: deny, reason: kept }';
  writeFileSync(join(workspace, '.ringfence/policy.yaml'), `rules:\n  - ${rule}\n`);
  await using client = await daemon.connect();
  await dataOf(client.call('file_list', {}));
  expect(await readers(daemon)).toHaveLength(2);
});

test('a daemon whose policy asks before reads starts no host for them', async () => {
  daemon = await openDaemon({ policy: 'tiers:\n  read_only: { decision: ask }\n' });
  expect(await readers(daemon)).toEqual([]);
});

test('hosts of writes and commands start for a session that stays, and none for one that is over by then', async () => {
  const [left, stays] = [temporaryDir('ws'), temporaryDir('ws')];
  folders.push(left, stays);
  const open = await openDaemon({ limits: { hostsAheadMs: 300 }, args: ['--workspace', left, '--workspace', stays] });
  daemon = open;
  const startedFor = (workspace: string) =>
    open
      .log()
      .split('\n')
      .filter((it) => it.includes('tier host ready') && it.includes(workspace))
      .map((it) => /"tier":"(\w+)"/.exec(it)?.[1]);
  await (await open.connect({ workspace: left }))[Symbol.asyncDispose]();
  await using _ = await open.connect({ workspace: stays });
  await until(() => startedFor(stays).includes('execute'));
  expect(new Set(startedFor(stays))).toEqual(new Set(['execute', 'read_only', 'write']));
  expect(startedFor(left).filter((it) => it !== 'read_only')).toEqual([]);
});

test('a daemon starts whose workspace has an invalid policy of its own', async () => {
  const workspace = temporaryDir('ws');
  mkdirSync(join(workspace, '.ringfence'));
  writeFileSync(join(workspace, '.ringfence/policy.yaml'), 'rules: no');
  try {
    daemon = await openDaemon({ workspace });
    await expect(daemon.connect()).rejects.toThrow('a policy of this session is not valid');
  } finally {
    removeTree(workspace);
  }
});
