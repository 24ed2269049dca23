/** Escapes through the network, through sockets that no network namespace confines, and to the sockets of other programs. */
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Attack, attempts, eachIdentity, namesOf } from '../support/arena.ts';

let server: Server;
let port: number;
let arrived = 0;
beforeAll(async () => {
  server = createServer((socket) => {
    arrived += 1;
    socket.on('error', () => {}).destroy();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  port = (server.address() as { port: number }).port;
});
afterAll(() => {
  server.close();
});

eachIdentity({}, (arena) => {
  test('connect-out.sh reaches no server of this machine, and without the sandbox it does', async () => {
    const attack: Attack = { program: 'connect-out.sh', args: [port] };
    const before = arrived;
    const tried = await arena.told(attack);
    expect(attempts(tried)).toEqual({
      loopback: 'refused',
      localhost: 'refused',
      route: 'refused',
      interfaces: 'refused',
    });
    expect(arrived).toBe(before);
    expect(namesOf(await arena.control(attack), 'through')).toEqual(expect.arrayContaining(['loopback', 'localhost']));
    expect(arrived).toBeGreaterThan(before);
  });

  test('vsock.pl gets no socket of any family but those of the internet, and without the sandbox it does', async () => {
    const program = 'vsock.pl';
    const tried = attempts(await arena.told({ program }));
    expect(Object.keys(tried)).toContain('vsock');
    // A command's own Unix sockets are allowed; unix-sockets.test.ts tests what they can't reach.
    const others = Object.entries(tried).filter(([name]) => !['unix', 'unix-pair'].includes(name));
    expect(others.filter(([, it]) => it === 'through')).toEqual([]);
    const through = namesOf(await arena.control({ program }), 'through');
    expect(through).toEqual(expect.arrayContaining(['netlink-netfilter', 'unix', 'unix-pair']));
  });

  test("unix-sockets.pl reaches neither the daemon's socket, by its path or a link, nor an abstract one, and without the sandbox it does", async () => {
    const name = `ringfence-attack-${process.pid}`;
    let reached = 0;
    const abstract = createServer((socket) => {
      reached += 1;
      socket.on('error', () => {}).destroy();
    });
    await new Promise<void>((resolve) => abstract.listen(`\0${name}`, resolve));
    try {
      const attack: Attack = { program: 'unix-sockets.pl', args: [`@${name}`, arena.daemon.socket] };
      expect(attempts(await arena.told(attack))).toEqual({ abstract: 'refused', path: 'refused' });
      expect(await arena.command(`ln -s '${arena.daemon.socket}' s; perl programs/unix-sockets.pl s`)).toBe(
        'path: refused\n',
      );
      expect(reached).toBe(0);
      expect(attempts(await arena.control(attack)).abstract).toBe('through');
      expect(reached).toBe(1);
    } finally {
      abstract.close();
    }
  });

  test('a Unix socket that somebody made in the workspace is not reached', async () => {
    const path = join(arena.daemon.workspace, 'somebody.sock');
    const somebody = createServer((socket) => socket.destroy());
    await new Promise<void>((resolve) => somebody.listen(path, resolve));
    try {
      expect(await arena.command('perl programs/unix-sockets.pl somebody.sock')).toBe('path: refused\n');
    } finally {
      somebody.close();
    }
  });
});
