/** Daemons that tests upgrade, and a call that goes on until it is told to end. */
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { runCli } from './cli.ts';
import { startDaemon, type TestDaemon, until } from './daemon.ts';

/** A daemon that is stopped by its state directory, since another process may serve by then. */
export async function upgradable(options: Parameters<typeof startDaemon>[0] = {}): Promise<TestDaemon> {
  const daemon = await startDaemon(options);
  return {
    ...daemon,
    async [Symbol.asyncDispose]() {
      await runCli(daemon, ['stop', '--no-autostart']);
      await daemon[Symbol.asyncDispose]();
    },
  };
}

/** A command that runs until the file `go` is there. */
export const UNTIL_GO = 'touch begun; until [ -e go ]; do sleep 0.02; done; echo done';
export const begun = ({ workspace }: TestDaemon): Promise<void> => until(() => existsSync(join(workspace, 'begun')));
export const go = ({ workspace }: TestDaemon): void => writeFileSync(join(workspace, 'go'), '');
export const isHandingOver = (daemon: TestDaemon): boolean => daemon.log().includes('handing over to the new daemon');
