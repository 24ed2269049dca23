/**
 * Sessions of clients without a lasting connection, against the real gateway's interface: which clients share one,
 * which make room, which end.
 */
import type { ServerContext } from '@modelcontextprotocol/server';
import { expect, test } from 'vitest';
import { defaultLimits } from '../../../src/base/limits.ts';
import { PLAIN_OPENING } from '../../../src/faces/mcp/opening-options.ts';
import { type SessionOptions, SharedSessions } from '../../../src/faces/mcp/shared-sessions.ts';
import type { LocalSession } from '../../../src/gateway/local-sessions.ts';
import { ManualPowers } from '../../support/audit.ts';

const context = (name: string) =>
  ({
    mcpReq: { envelope: { 'io.modelcontextprotocol/clientInfo': { name, version: '1' } } },
  }) as unknown as ServerContext;
const of = (principal: string, client = 'a', more: object = {}): SessionOptions => ({
  opening: { ...PLAIN_OPENING, ...more },
  caller: { identity: { role: 'agent', principal }, uid: 1, mayAnswer: false },
  context: context(client),
});

function shared(limits: Partial<typeof defaultLimits> = {}) {
  const powers = new ManualPowers();
  const opened: string[] = [];
  const ended: string[] = [];
  const sessions = new SharedSessions({
    powers,
    limits: { ...defaultLimits, ...limits },
    resolveWorkspace: (workspace) => ({ workspace }),
    openSession: ({ identity, client }) => {
      const id = `${identity.principal} ${client.name}`;
      opened.push(id);
      return { session: { options: { id } }, end: async () => void ended.push(id) } as unknown as LocalSession;
    },
  });
  const use = (wanting: SessionOptions, work = async () => {}) => sessions.use(wanting, work);
  return { use, powers, opened, ended };
}

test('the same principal, client and wishes share a session, and nobody else does', async () => {
  const { use, opened } = shared();
  await use(of('ann'));
  await use(of('ann'));
  await use(of('ann', 'b'));
  await use(of('bob'));
  await use(of('ann', 'a', { readOnly: true }));
  expect(opened).toEqual(['ann mcp a', 'ann mcp b', 'bob mcp a', 'ann mcp a']);
});

test('sessions of one principal displace only sessions of the same principal', async () => {
  const { use, ended } = shared({ mcpSessionsPerPrincipalMax: 2 });
  await use(of('bob'));
  for (const client of ['a', 'b', 'c', 'd']) await use(of('ann', client));
  expect(ended).toEqual(['ann mcp a', 'ann mcp b']);
});

test('the next session is refused if all are in use', async () => {
  const { use } = shared({ mcpSessionsPerPrincipalMax: 1 });
  const held = Promise.withResolvers<void>();
  const first = use(of('ann'), () => held.promise);
  await expect(use(of('ann', 'b'))).rejects.toMatchObject({ code: 'OVERLOADED' });
  held.resolve();
  await first;
  await use(of('ann', 'b'));
});

test('an idle session ends, and a used one does not', async () => {
  const { use, powers, ended } = shared();
  const held = Promise.withResolvers<void>();
  const work = use(of('bob'), () => held.promise);
  await use(of('ann'));
  powers.fire(defaultLimits.mcpSessionIdleMs);
  expect(ended).toEqual(['ann mcp a']);
  held.resolve();
  await work;
});
