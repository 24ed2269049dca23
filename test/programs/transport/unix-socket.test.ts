import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { listenSocket, SocketError } from '../../../src/wire/transport/unix-socket.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync('/tmp/ringfence-socket-');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test.each(['755', '1777'])(
  'a socket in a folder of mode %s is refused with a place that would do, and the folder keeps its mode',
  async (octal) => {
    const mode = Number.parseInt(octal, 8);
    const shared = join(folder, 'shared');
    mkdirSync(shared);
    chmodSync(shared, mode);
    const refused = await listenSocket(join(shared, 'x.sock'), () => {}).catch((it: unknown) => it as Error);
    expect(refused).toBeInstanceOf(SocketError);
    const { message } = refused as Error;
    expect(message).toContain(`${shared} is open to others (mode ${mode.toString(8)})`);
    expect(message).not.toContain('chmod');
    const [, advised = ''] = /--socket (\S+)$/.exec(message) ?? [];
    await using _ = await listenSocket(advised, () => {});
    expect(statSync(join(advised, '..')).mode & 0o777).toBe(0o700);
    expect(statSync(shared).mode & 0o7777).toBe(mode);
  },
);
