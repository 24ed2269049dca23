/** Runs the daemon from its config to its exit code. */
import { join } from 'node:path';
import { PolicyError } from '../policy/load.ts';
import { systemPowers } from '../powers.ts';
import { SocketError } from '../transport/unix-socket.ts';
import { keepCode } from './compiled-code.ts';
import { ConfigError, loadConfig, type ServeFlags } from './config.ts';
import { createDaemon, DaemonError } from './daemon.ts';
import { createLog, LOG_LEVELS } from './log.ts';
import { type Environment, StateDirError } from './user-dirs.ts';

/** Milliseconds after which the code of the start and of a first call has been compiled. */
const STARTED_MS = 3000;

/** Serves until it is told to end, and sets the exit code. Calls `tellReady` once. */
export async function serve(
  flags: ServeFlags,
  environment: Environment,
  tellReady: (notice: object) => void,
): Promise<void> {
  const { RINGFENCE_LOG: level = 'info' } = environment;
  const isLevel = LOG_LEVELS.includes(level);
  const log = createLog(isLevel ? level : 'info');
  let end: ((isAgain: boolean) => void) | undefined;
  let asked: NodeJS.Signals | undefined;
  // Handled from the beginning: the daemon accepts connections before it is complete, and a client may end it.
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.on(signal, () => {
      const isAgain = asked !== undefined;
      asked ??= signal;
      end?.(isAgain);
      if (isAgain) process.exit(1);
    });
  }
  try {
    if (!isLevel) throw new ConfigError(`RINGFENCE_LOG is ${level}; it must be one of ${LOG_LEVELS.join(', ')}`);
    const config = loadConfig(flags, environment, process.cwd());
    log.bound(join(config.dirs.stateDir, 'daemon.log'), config.limits.daemonLogBytesMax);
    process.chdir('/');
    const powers = systemPowers(log);
    const daemon = await createDaemon(config, powers);
    // A second signal ends it at once.
    end = (isAgain) => void daemon.close(isAgain ? 0 : config.limits.shutdownGraceMs, asked ?? 'SIGTERM');
    if (asked) end(false);
    const { listeners, confinement } = daemon;
    const { level: confinementLevel, missing, advice } = confinement;
    log.info({ listeners, workspaces: config.workspaces, confinementLevel, missing, advice }, 'ready');
    tellReady({ pid: process.pid, listeners, confinement });
    // Not done at the end, since the daemon may be killed.
    powers.after(STARTED_MS, () => keepCode(config.dirs.stateDir, config.limits));
    const alive = setInterval(() => {}, 2 ** 30);
    await daemon.ended;
    clearInterval(alive);
  } catch (error) {
    const expected = [ConfigError, DaemonError, PolicyError, SocketError, StateDirError].some(
      (it) => error instanceof it,
    );
    const message = (error as Error).message;
    if (expected) log.fatal(message);
    else log.fatal({ error }, message);
    tellReady({ error: message });
    process.exitCode = expected ? 2 : 1;
  }
}
