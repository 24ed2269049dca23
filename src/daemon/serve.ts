/** Runs the daemon from its config to its exit code. */
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { PolicyError } from '../policy/load.ts';
import { monotonicUsec, type Powers, systemPowers } from '../powers.ts';
import { inheritedSockets } from '../transport/inherited-sockets.ts';
import { SocketError } from '../transport/unix-socket.ts';
import { keepCode } from './compiled-code.ts';
import { type Config, ConfigError, loadConfig, type ServeFlags } from './config.ts';
import { createDaemon, type Daemon, DaemonError } from './daemon.ts';
import { endWhenIdle } from './idle-exit.ts';
import { createLog, type DaemonLog, LOG_LEVELS } from './log.ts';
import { createNotify, keepAlive, type Notify, watchdogMs } from './notify.ts';
import { type Environment, StateDirError } from './user-dirs.ts';

/** Milliseconds after which the code of the start and of a first call has been compiled. */
const STARTED_MS = 3000;

export interface DaemonFlags extends ServeFlags {
  readonly 'tell-ready'?: boolean | undefined;
  readonly 'end-when-idle'?: boolean | undefined;
}

/** Serves until it is told to end, and sets the exit code. Calls `tellReady` once. */
export async function serve(
  flags: DaemonFlags,
  environment: Environment,
  tellReady: (notice: object) => void,
): Promise<void> {
  const { RINGFENCE_LOG: level = 'info', JOURNAL_STREAM } = environment;
  const isLevel = LOG_LEVELS.includes(level);
  const log = createLog(isLevel ? level : 'info', JOURNAL_STREAM);
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
    const cwd = process.cwd();
    const config = loadConfig(flags, environment, cwd);
    log.bound(join(config.dirs.stateDir, 'daemon.log'), config.limits.daemonLogBytesMax);
    process.chdir('/');
    const powers = systemPowers(log);
    const notify = createNotify(environment, powers);
    const sockets = flags['tell-ready'] ? {} : inheritedSockets(environment, process.pid);
    const daemon = await createDaemon(config, powers, sockets);
    // A second signal ends it at once.
    void daemon.closing.then(() => notify?.('STOPPING=1'));
    end = (isAgain) => {
      void daemon.close(isAgain ? 0 : config.limits.shutdownGraceMs, asked ?? 'SIGTERM');
    };
    if (asked) end(false);
    const { listeners, confinement } = daemon;
    const { level: confinementLevel, missing, advice } = confinement;
    log.info({ listeners, workspaces: config.workspaces, confinementLevel, missing, advice }, 'ready');
    const read = () => loadConfig(flags, environment, cwd);
    // Before anybody is told that it is ready: an unhandled SIGHUP ends a process.
    const tended = tend({ daemon, config, read, flags, environment, notify, log }, powers);
    tellReady({ pid: process.pid, listeners, confinement });
    notify?.('READY=1', `STATUS=confinement level ${confinementLevel}`);
    // Not done at the end, since the daemon may be killed.
    powers.after(STARTED_MS, () => {
      keepCode(config.dirs.stateDir, config.limits);
      letYoungGenerationGrow();
    });
    const alive = setInterval(() => {}, 2 ** 30);
    await daemon.ended;
    tended[Symbol.dispose]();
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

interface Tended {
  readonly daemon: Daemon;
  readonly config: Config;
  readonly flags: DaemonFlags;
  readonly environment: Environment;
  readonly notify: Notify | undefined;
  readonly log: DaemonLog;
  /** Reads the settings again. Throws ConfigError. */
  read(): Config;
}

/** Reloads at SIGHUP, tells the watchdog that the daemon works, and ends it when nobody uses it. */
function tend({ daemon, config, flags, environment, notify, log, read }: Tended, powers: Powers): Disposable {
  const parts = new DisposableStack();
  // A terminal sends SIGHUP when it closes, which should end a daemon in the foreground.
  if (!process.stderr.isTTY)
    process.on('SIGHUP', () => {
      notify?.('RELOADING=1', `MONOTONIC_USEC=${monotonicUsec()}`);
      reload({ daemon, config, read }, log);
      notify?.('READY=1');
    });
  const watchMs = watchdogMs(environment, process.pid);
  if (notify && watchMs !== undefined) parts.use(keepAlive(watchMs, { notify, answers: daemon.answers }, powers));
  const { idleExitMinutes } = config;
  const minutes = flags['end-when-idle'] ? idleExitMinutes : 0;
  const end = () => void daemon.close(0, `nobody has used it for ${idleExitMinutes} minutes`);
  parts.use(endWhenIdle({ minutes, isIdle: daemon.isIdle, end }, powers));
  return parts;
}

/** Takes changed policy files; of a changed config.yaml only says that it waits for a restart, or is not valid. */
function reload({ daemon, config, read }: Pick<Tended, 'daemon' | 'config' | 'read'>, log: DaemonLog): void {
  const { ok, problems } = daemon.reload();
  if (!ok) log.error({ problems }, 'the policy is not valid; the previous one stays in force');
  try {
    if (!isDeepStrictEqual(read(), config))
      log.warn({}, 'config.yaml has changed; it takes effect when the daemon restarts');
    log.info({ ok }, 'reloaded');
  } catch (error) {
    log.error({ error }, 'config.yaml is not valid; the daemon goes on with the previous one');
  }
}

/** Gives V8 its default back, which main.ts changed for the start: under load, collecting a small young generation takes a third of the CPU time. */
function letYoungGenerationGrow(): void {
  setFlagsFromString('--semi-space-growth-factor=2');
}
