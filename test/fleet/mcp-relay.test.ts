/** One MCP client of a gateway: what it is told when there is no session, and when its node is lost. */
import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { RpcError } from '../../src/base/errors.ts';
import { defaultLimits as limits } from '../../src/base/limits.ts';
import { systemPowers } from '../../src/base/powers.ts';
import { FlowGate } from '../../src/fleet/placed/flow-gate.ts';
import { McpRelay, type McpRelayOptions } from '../../src/fleet/placed/mcp-relay.ts';
import { createSessionKeys, Sealing } from '../../src/fleet/placed/sealing.ts';
import { SessionStream } from '../../src/fleet/placed/stream.ts';
import { removeTree, temporaryDir } from '../support/daemon.ts';
import { RawMcp } from '../support/mcp.ts';

const powers = systemPowers();
let folder: string;
let server: Server;
let accepted: (socket: Socket) => void;
beforeAll(async () => {
  folder = temporaryDir('mcp-relay');
  server = createServer({ allowHalfOpen: true }, (socket) => accepted(socket));
  await once(server.listen(join(folder, 'client.sock')), 'listening');
});
afterAll(() => {
  server.close();
  removeTree(folder);
});

/** A client at a relay that opens its session by `open`. */
async function clientOf(open: McpRelayOptions['open'], bounds: Partial<typeof limits> = {}) {
  const relaying = new Promise<McpRelay>((resolve) => {
    accepted = (socket) => resolve(new McpRelay(socket, { limits: { ...limits, ...bounds }, powers, open }));
  });
  const client = new RawMcp(join(folder, 'client.sock'));
  return { client, relay: await relaying };
}

/** A session whose node takes at most `windowBytes`, and does nothing. */
function sessionOf(windowBytes = limits.fleetWindowBytes): SessionStream {
  const [g, n] = [createSessionKeys(), createSessionKeys()];
  const gate = new FlowGate({ flushed: async () => {} }, limits.fleetUnflushedBytes);
  return new SessionStream({ sealing: new Sealing('gateway', g, n.publicKey, 'both'), windowBytes, gate, send() {} });
}

test('a request without a session is answered with the reason, and the connection ends', async () => {
  const { client } = await clientOf(() => Promise.reject(new RpcError('OVERLOADED', 'no node is there')));
  client.send({ method: 'notifications/ringfence/open', params: { workspace: '/srv' } });
  expect(await client.request('initialize')).toMatchObject({ error: { message: 'no node is there' } });
  await expect.poll(() => client.closed).toBe(true);
});

test('requests of a node that is lost are answered: what was sent as unknown, the rest as not begun', async () => {
  const stream = sessionOf(400);
  const { client, relay } = await clientOf(async () => stream);
  client.send({ id: 1, method: 'tools/call', params: { name: 'file_list' } });
  client.send({ id: 2, method: 'tools/list' });
  client.send({
    id: 3,
    method: 'tools/call',
    params: { name: 'file_write', arguments: { content: 'x'.repeat(4000) } },
  });
  await expect.poll(() => stream.writableLength).toBeGreaterThan(4000);
  relay.lose('it was stopped');
  const outcomeOf = async (id: number) => JSON.stringify((await client.answer(id)).result?._meta);
  expect(await outcomeOf(1)).toContain('"outcome":"unknown"');
  expect((await client.answer(2)).error?.message).toContain('it was stopped');
  expect(await outcomeOf(3)).toContain('"outcome":"none"');
  await expect.poll(() => client.closed).toBe(true);
});

test('a message above the bound is refused, and the connection goes on', async () => {
  const { client } = await clientOf(async () => sessionOf(), { mcpMessageBytesMax: 100 });
  client.write(`${'x'.repeat(101)}\n`);
  expect(await client.answer(null)).toMatchObject({ error: { message: 'a message may have 100 bytes' } });
  expect(client.closed).toBe(false);
  client.socket.destroy();
});

test('a client that says nothing is dropped', async () => {
  const { client } = await clientOf(async () => sessionOf(), { mcpOpenMs: 20 });
  await expect.poll(() => client.closed).toBe(true);
});

test('a client that is gone takes its session with it', async () => {
  const stream = sessionOf();
  const { client } = await clientOf(async () => stream);
  client.send({ id: 1, method: 'tools/list' });
  await expect.poll(() => stream.listenerCount('data')).toBe(1);
  client.socket.destroy();
  await expect.poll(() => stream.destroyed).toBe(true);
});
