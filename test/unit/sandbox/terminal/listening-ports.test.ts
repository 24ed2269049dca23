import { createServer } from 'node:net';
import { expect, test } from 'vitest';
import { listeningPorts, toListening } from '../../../../src/sandbox/terminal/listening-ports.ts';

const TABLE = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1 0 100 0 0 10 0
   1: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 2 1 0 100 0 0 10 0
   2: 0100007F:1F90 0100007F:C001 01 00000000:00000000 00:00000000 00000000  1000        0 3 1 0 20 4 30 10 -1
`;

test('the ports of a table are those of listening sockets, not those of connections', () => {
  expect(toListening(TABLE)).toEqual([8080, 80]);
  expect(
    toListening('   0: 00000000000000000000000001000000:0BB8 00000000000000000000000000000000:0000 0A 00\n'),
  ).toEqual([3000]);
  expect(toListening('')).toEqual([]);
});

test('the ports of a process are those of its network, and an ended process has no ports', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as { port: number };
  try {
    // The whole machine's network may listen on more ports than are told.
    const ports = listeningPorts(process.pid);
    expect(ports.length === 32 || ports.includes(port)).toBe(true);
    expect(ports).toEqual(ports.toSorted((a, b) => a - b));
  } finally {
    server.close();
  }
  expect(listeningPorts(2 ** 30)).toEqual([]);
});
