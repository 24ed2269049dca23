/** A failed command's result names what its sandbox kept from it: hidden paths with their rule, read-only paths, the network. */
import { chownSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import type { Withheld } from '../../src/base/call.ts';
import { type Arena, eachIdentity } from '../support/arena.ts';
import { dataOf } from '../support/daemon.ts';

const POLICY = `tiers:
  execute: { network: { allow: ["127.0.0.1:1", "*.example.org"] } }
rules:
  - { id: locked, match: { write: "locked/**" }, decision: deny, reason: it is a test }
  - { id: closed, match: { read: "vault/**" }, decision: deny, reason: it is a test }
`;

eachIdentity({ policy: POLICY }, (arena) => {
  beforeAll(() => plant(arena));

  async function withheldOf(command: string, input: object = {}): Promise<Withheld | undefined> {
    const { metadata } = await arena.client.call('terminal_execute', { command, ...input } as never);
    return metadata.withheld;
  }

  test('a failed command is told the hidden paths, the read-only paths and its hosts', async () => {
    const withheld = await withheldOf('exit 3');
    expect(withheld).toMatchObject({ count: 2, network: ['127.0.0.1:1', '*.example.org'] });
    expect(withheld?.hidden).toEqual(
      expect.arrayContaining([
        { path: '.env', rule: 'no-secrets' },
        { path: 'vault', rule: 'closed' },
      ]),
    );
    expect(withheld?.readOnly).toEqual(expect.arrayContaining(['locked', '.git/config']));
  });

  test('a successful command is told only of hidden paths that it names', async () => {
    expect(await withheldOf('cat plain; ls .env.example .environment; true')).toBeUndefined();
    const open = 'access_request {"path":".env"}';
    expect(await withheldOf('cat ./.env; true')).toMatchObject({
      hidden: [{ path: '.env', rule: 'no-secrets', open }],
      readOnly: [],
    });
  });

  test.each([
    ['at its time limit', 'sleep 60', { timeout: 300 }],
    ['by a signal', 'kill -9 $$', {}],
  ])('a command that is ended %s is told, too', async (_, command, input) => {
    expect(await withheldOf(command, input)).toMatchObject({ count: 2 });
  });

  test('a script in another shell is told, too', async () => {
    const { metadata } = await arena.client.call('terminal_script', { script: 'exit 2', shell: 'sh' } as never);
    expect(metadata.withheld).toMatchObject({ count: 2 });
  });

  test('the report names no entry of a hidden folder', async () => {
    const told = JSON.stringify(await withheldOf('exit 1'));
    expect(told).not.toMatch(/vault\//);
  });

  test('refusals by the network are told beside it', async () => {
    const { metadata } = await arena.client.call('terminal_execute', {
      command: 'exec 3<>/dev/tcp/192.0.2.1/9',
    } as never);
    expect(metadata.denied).toMatchObject([{ kind: 'connect', target: 'network' }]);
    expect(metadata.withheld).toBeDefined();
  });

  describe('many hidden files', () => {
    beforeAll(() => {
      for (let i = 0; i < 30; i++) put(arena, `many/.env.${i}`);
    });

    test('20 of many hidden files are listed, and all are counted', async () => {
      await arena.client.call('file_list', { path: 'many' });
      const withheld = await withheldOf('false');
      expect(withheld?.count).toBe(32);
      expect(withheld?.hidden).toHaveLength(20);
    });
  });
});

eachIdentity({}, (arena) => {
  test('a command without a network is told so, even if nothing is hidden', async () => {
    const result = await arena.client.call('terminal_execute', { command: 'exit 1' } as never);
    expect(await dataOf(Promise.resolve(result))).toMatchObject({ exitCode: 1 });
    expect(result.metadata.withheld).toEqual({
      hidden: [],
      count: 0,
      readOnly: [],
      network: 'none',
      unixSockets: 'own',
    });
  });
});

function put({ daemon, identity }: Arena, path: string): void {
  const owner = identity.daemon ?? identity.workspace;
  const whole = join(daemon.workspace, path);
  const folder = dirname(whole);
  mkdirSync(folder, { recursive: true });
  writeFileSync(whole, 'x\n');
  if (owner) for (const it of [folder, whole]) chownSync(it, owner.uid, owner.gid);
}

function plant(arena: Arena): void {
  for (const it of ['.env', 'plain', 'vault/a', 'vault/dir/x', 'locked/a', '.git/hooks/y', '.git/config', '.git/HEAD'])
    put(arena, it);
}
