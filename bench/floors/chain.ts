/**
 * The same hops with nothing in them: client, Unix socket, a gateway that passes bytes on, descriptor 3, a host that passes
 * them to a Piscina thread, and back. What a dispatch can't be faster than in this architecture.
 */
import { spawn } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryDir } from '../../test/support/daemon.ts';
import { type ByteLine, connectBytes } from './byte-line.ts';

const HOST = (piscina: string, thread: string) => `
  import { Socket } from 'node:net';
  import { Piscina } from ${JSON.stringify(piscina)};
  const gateway = new Socket({ fd: 3, readable: true, writable: true });
  const filename = ${JSON.stringify(thread)};
  const pool = new Piscina({ filename, minThreads: 1, maxThreads: 2, concurrentTasksPerWorker: 8, atomics: 'sync' });
  gateway.on('data', async (bytes) => gateway.write(await pool.run(bytes)));
  gateway.on('close', () => process.exit());`;
const GATEWAY = `
  import { spawn } from 'node:child_process';
  import { createServer } from 'node:net';
  const host = spawn(process.execPath, [new URL('host.mjs', import.meta.url).pathname], { stdio: ['ignore', 'inherit', 'inherit', 'pipe'] });
  const line = host.stdio[3];
  createServer((client) => {
    client.on('data', (bytes) => line.write(bytes));
    line.on('data', (bytes) => client.write(bytes));
  }).listen(process.argv[2], () => console.log('up'));`;

/** Starts both processes; disposing ends them. */
export async function createChain(): Promise<ByteLine & Disposable> {
  const folder = temporaryDir('chain');
  const at = (name: string) => join(folder, name);
  writeFileSync(at('host.mjs'), HOST(import.meta.resolve('piscina'), import.meta.resolve('./echo-thread.ts')));
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
