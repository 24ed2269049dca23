/** Whose answers count as a person's at the MCP socket. */
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type NetConnectOpts, type Server } from 'node:net';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { callerOf } from '../../../src/faces/mcp/listen.ts';
import { peerCredentials } from '../../../src/wire/transport/peer-credentials.ts';
import { temporaryDir } from '../../support/daemon.ts';

/** The caller that we see on a connection to ourselves. */
async function callerAt(server: Server, to: (address: AddressInfo) => NetConnectOpts) {
  await once(server, 'listening');
  const client = connect(to(server.address() as AddressInfo));
  const [socket] = await once(server, 'connection');
  try {
    return { caller: callerOf(socket), isKnown: peerCredentials(socket) !== undefined };
  } finally {
    client.destroy();
    socket.destroy();
    server.close();
  }
}

test('a peer that the kernel does not name may not answer for a person', async () => {
  const { caller } = await callerAt(createServer().listen(0, '127.0.0.1'), ({ port }) => ({ port, host: '127.0.0.1' }));
  expect(caller).toMatchObject({ uid: undefined, mayAnswer: false });
});

test('a client of our own user may answer, if the kernel confirms its user', async () => {
  const folder = temporaryDir('listen');
  try {
    const path = join(folder, 's');
    const { caller, isKnown } = await callerAt(createServer().listen(path), () => ({ path }));
    expect(caller.mayAnswer).toBe(isKnown);
    expect(caller.uid).toBe(isKnown ? process.getuid?.() : undefined);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
