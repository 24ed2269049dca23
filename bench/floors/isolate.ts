/** Bare isolated-vm: one program in a new isolate of 64 MiB, in a process of its own, since a hostile program can end it. */
import { spawn } from 'node:child_process';

const PROGRAM = (module: string) => `
  import ivm from ${JSON.stringify(module)};
  process.on('message', (code) => {
    const isolate = new ivm.Isolate({ memoryLimit: 64 });
    const value = isolate.createContextSync().evalSync(code, { timeout: 1000 });
    isolate.dispose();
    process.send(value);
  });
  process.send('up');`;

/** Starts the process; disposing ends it. */
export async function createIsolates(): Promise<{ run(code: string): Promise<unknown> } & Disposable> {
  const program = PROGRAM(import.meta.resolve('isolated-vm'));
  const args = ['--no-node-snapshot', '--input-type=module', '-e', program];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] });
  let waiting: PromiseWithResolvers<unknown> | undefined;
  child.on('message', (value) => waiting?.resolve(value));
  child.once('exit', (code) => waiting?.reject(new Error(`isolated-vm ended with ${code}`)));
  const answer = () => {
    waiting = Promise.withResolvers();
    return waiting.promise;
  };
  await answer();
  return {
    run(code) {
      child.send(code);
      return answer();
    },
    [Symbol.dispose]: () => void child.kill('SIGKILL'),
  };
}
