/**
 * The hops of a call without any work: client, Unix socket, a gateway that passes bytes on, descriptor 3, a host that
 * sends them back; polls like our code does for a single call. No dispatch can be faster in this architecture.
 */
import { spawn } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { defaultLimits } from '../../src/base/limits.ts';
import { temporaryDir } from '../../test/support/daemon.ts';
import { type ByteLine, connectBytes, MESSAGE_BYTES } from './byte-line.ts';

const POLLING = `
  import { Polling } from ${JSON.stringify(import.meta.resolve('../../src/base/polling.ts'))};
  const polling = new Polling(${defaultLimits.threadPollMs}, { monotonicMs: () => performance.now() });
  const sent = ({ length }) => length > ${MESSAGE_BYTES} || polling.begin();`;
const HOST = `${POLLING}
  import { Socket } from 'node:net';
  const gateway = new Socket({ fd: 3, readable: true, writable: true });
  gateway.on('data', (bytes) => {
    polling.end();
    gateway.write(bytes);
    sent(bytes);
  });
  gateway.on('close', () => process.exit());`;
const GATEWAY = `${POLLING}
  import { spawn } from 'node:child_process';
  import { createServer } from 'node:net';
  const host = spawn(process.execPath, [new URL('host.mjs', import.meta.url).pathname], { stdio: ['ignore', 'inherit', 'inherit', 'pipe'] });
  const line = host.stdio[3];
  createServer((client) => {
    client.on('data', (bytes) => {
      line.write(bytes);
      sent(bytes);
    });
    line.on('data', (bytes) => {
      polling.end();
      client.write(bytes);
    });
  }).listen(process.argv[2], () => console.log('up'));`;

/** Starts both processes; disposing ends them. */
export async function createChain(): Promise<ByteLine & Disposable> {
  const folder = temporaryDir('chain');
  const at = (name: string) => join(folder, name);
  writeFileSync(at('host.mjs'), HOST);
  writeFileSync(at('gateway.mjs'), GATEWAY);
  const gateway = spawn(process.execPath, [at('gateway.mjs'), at('s')], { stdio: ['ignore', 'pipe', 'inherit'] });
  await new Promise((resolve) => gateway.stdout.once('data', resolve));
  const line = connectBytes(at('s'));
  return {
    run: line.run,
    [Symbol.dispose]() {
      line[Symbol.dispose]();
      gateway.kill();
      rmSync(folder, { recursive: true });
    },
  };
}
