/** The least cost of any daemon: a Unix socket that echoes, in a process of its own. */
import { spawn } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { temporaryDir } from '../../test/support/daemon.ts';
import { type ByteLine, connectBytes } from './byte-line.ts';

/** Starts the server and connects; disposing ends both. */
export async function createEcho(): Promise<ByteLine & Disposable> {
  const folder = temporaryDir('echo');
  const path = join(folder, 's');
  const script = `require('net').createServer((s) => s.pipe(s)).listen(${JSON.stringify(path)}, () => console.log('up'))`;
  const server = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
  await new Promise((resolve) => server.stdout.once('data', resolve));
  const line = connectBytes(path);
  return {
    run: line.run,
    [Symbol.dispose]() {
      line[Symbol.dispose]();
      server.kill();
      rmSync(folder, { recursive: true });
    },
  };
}
