/** Opens a port of a background command at a Unix socket, for as long as somebody wants it and the command runs. */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { ToolError } from '../../src/base/errors.ts';
import type { Limits } from '../../src/base/limits.ts';
import { nativeProgram } from '../../src/base/native-programs.ts';
import { onAbort, type Powers } from '../../src/base/powers.ts';
import type { PortRequest } from '../../src/hosts/background/background-job.ts';
import type { Background } from '../../src/sandbox/terminal/background.ts';

export interface ForwardOptions {
  /** Folder for the socket, which the daemon sees, too, and no command. */
  readonly folder: string;
  /** File of the relay, `port-relay.ts`. */
  readonly relay: string;
  readonly limits: Limits;
  readonly powers: Powers;
  readonly signal: AbortSignal;
  /** Called when connections are taken. */
  onOpen(): void;
}

/**
 * Settles when the command has ended or the relay has; the relay is gone by then. Throws CONFLICT if the
 * command has ended, and the signal's reason.
 */
export async function forwardPort(
  { port, socket }: PortRequest,
  run: Background,
  { folder, relay, limits, powers, signal, onOpen }: ForwardOptions,
): Promise<{ ended: 'command' | 'relay' }> {
  const { init } = run;
  if (init === undefined || run.ended !== undefined) throw new ToolError('CONFLICT', 'the command has ended');
  const path = join(folder, socket);
  const node = [process.execPath, '--disable-warning=ExperimentalWarning', '--disable-sigusr1'];
  const words = [`${init}`, ...node, relay, `${port}`, path, `${limits.forwardConnectionsMax}`];
  const child = powers.spawn(nativeProgram('join-net'), words, {
    stdio: ['ignore', 'pipe', 'inherit'],
    cwd: '/',
    env: {},
  });
  const gone = new Promise<void>((resolve) => {
    for (const event of ['exit', 'error']) child.once(event, () => resolve());
  });
  (child.stdout as Readable).once('data', onOpen);
  const aborted = Promise.withResolvers<void>();
  using _ = onAbort(signal, aborted.resolve);
  try {
    await Promise.race([run.gone, gone, aborted.promise]);
    signal.throwIfAborted();
    return { ended: run.ended === undefined ? 'relay' : 'command' };
  } finally {
    child.kill('SIGKILL');
    await gone;
    rmSync(path, { force: true });
  }
}
