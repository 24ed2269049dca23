/** Runs the daemon from its config to its exit code. */
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { setFlagsFromString } from 'node:v8';
import { type Log, monotonicUsec, type Powers, systemPowers } from '../base/powers.ts';
import { version } from '../base/runtime.ts';
import { FleetError } from '../fleet/fleet-error.ts';
import { PolicyError } from '../policy/load.ts';
import {
  handedSockets,
  type InheritedSockets,
  inheritedSockets,
  NO_SOCKETS,
} from '../wire/transport/inherited-sockets.ts';
import { SocketError } from '../wire/transport/unix-socket.ts';
import { type Config, ConfigError, loadConfig, type ServeFlags } from './config.ts';
import { createDaemon, type Daemon, type DaemonStart } from './daemon.ts';
import { CHANNEL_FD, Predecessor, SuccessorError } from './hand-over.ts';
import { endWhenIdle } from './idle-exit.ts';
import { createLog, type DaemonLog, LOG_LEVELS } from './log.ts';
import { createNotify, keepAlive, type Notify, watchdogMs } from './notify.ts';
import { DaemonError } from './state-lock.ts';
import { type Rest, Upgrade, type UpgradeOptions } from './upgrade.ts';
import { type Environment, StateDirError } from './user-dirs.ts';

/** Errors that a person can do something about. */
const EXPECTED = [ConfigError, DaemonError, FleetError, PolicyError, SocketError, StateDirError, SuccessorError];
/** Milliseconds after which the code of the start and of a first call has been compiled. */
const STARTED_MS = 3000;

export interface DaemonFlags extends ServeFlags {
  readonly 'tell-ready'?: boolean | undefined;
  readonly 'end-when-idle'?: boolean | undefined;
  /** Address of the bus of the daemon's fleet. */
  readonly fleet?: string | undefined;
  /** Set if the starter of the daemon waits for this process. */
  readonly foreground?: boolean | undefined;
  /** Names of the sockets that the daemon before hands over, in the order of their descriptors. */
  readonly 'take-over'?: readonly string[] | undefined;
  /** Names of the handed sockets that a service manager keeps. */
  readonly 'keep-socket'?: readonly string[] | undefined;
}

/**
 * Serves until it is told to end, and sets the exit code. Calls `tellReady` once. `toPowers` is another than the
 * system's in daemons under test only.
 */
export async function serve(
  flags: DaemonFlags,
  environment: Environment,
  tellReady: (notice: object) => void,
  toPowers: (log: Log) => Powers = systemPowers,
): Promise<void> {
  const { RINGFENCE_LOG: level = 'info', JOURNAL_STREAM } = environment;
  const isLevel = LOG_LEVELS.includes(level);
  const log = createLog(isLevel ? level : 'info', JOURNAL_STREAM);
  const predecessor = flags['take-over'] && new Predecessor();
  let isTold = false;
  const tell = (notice: object) => {
    if (!isTold) (predecessor ? (it: object) => predecessor.tell(it) : tellReady)(notice);
    isTold = true;
  };
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
    const powers = toPowers(log);
    const notify = createNotify(environment, powers);
    const sockets = socketsOf(flags, environment);
    const launch = { ...launchOf(flags, environment), cwd, kept: sockets.kept };
    const start = { sockets, turn: predecessor && (() => predecessor.turn(version)), fleet: flags.fleet };
    const parts = { config, powers, flags, environment, notify, log, launch };
    const read = () => loadConfig(flags, environment, cwd);
    for (let isFirst = true; ; isFirst = false) {
      const onReady = (daemon: Daemon) => {
        // A second signal ends the daemon at once.
        end = (isAgain) => void daemon.close(isAgain ? 0 : config.limits.shutdownGraceMs, asked ?? 'SIGTERM');
        if (asked) end(false);
        const { listeners, confinement, note: policyNote } = daemon;
        if (isFirst) tell({ pid: process.pid, listeners, confinement, policyNote });
      };
      const next = isFirst ? start : { sockets: NO_SOCKETS, fleet: flags.fleet };
      const rest = await serveOnce({ ...parts, start: next, read, onReady });
      if (rest === 'fail') process.exitCode = 1;
      if (rest !== 'serve' || asked) return;
    }
  } catch (error) {
    const expected = EXPECTED.some((it) => error instanceof it);
    const message = (error as Error).message;
    if (expected) log.fatal(message);
    else log.fatal({ error }, message);
    tell({ error: message });
    process.exitCode = expected ? 2 : 1;
  }
}

interface Serving extends Omit<Tended, 'daemon'> {
  readonly powers: Powers;
  readonly launch: UpgradeOptions['launch'];
  readonly start: Omit<DaemonStart, 'upgrade'>;
  /** Called when clients are served. */
  onReady(daemon: Daemon): void;
}

/** Runs a daemon to its end, or until a new one has taken over. */
async function serveOnce({ powers, start, onReady, launch, ...parts }: Serving): Promise<Rest> {
  const { config, flags, notify, log } = parts;
  const { limits } = config;
  const upgrade = new Upgrade({ launch, limits, powers, notify, obstacle: obstacleOf(flags) });
  const daemon: Daemon = await createDaemon(config, powers, {
    ...start,
    upgrade: (drainMs, servers) => upgrade.start(servers, () => daemon.handOver(drainMs)),
  });
  void daemon.closing.then(() => {
    upgrade.cancel();
    notify?.('STOPPING=1');
  });
  const { listeners, confinement } = daemon;
  const { level: confinementLevel, missing, advice } = confinement;
  log.info({ listeners, workspaces: config.workspaces, confinementLevel, missing, advice }, 'ready');
  if (daemon.note) log.warn({ policy: 'default' }, daemon.note);
  // Before anybody is told that it is ready: an unhandled SIGHUP ends a process.
  const tended = tend({ daemon, ...parts }, powers);
  onReady(daemon);
  notify?.('READY=1', `STATUS=confinement level ${confinementLevel}`);
  powers.after(STARTED_MS, letYoungGenerationGrow);
  const alive = setInterval(() => {}, 2 ** 30);
  try {
    await daemon.ended;
    return await upgrade.finish();
  } finally {
    tended[Symbol.dispose]();
    clearInterval(alive);
  }
}

/** The sockets that were passed on to this process. Throws SocketError. */
function socketsOf(flags: DaemonFlags, environment: Environment): InheritedSockets {
  const { 'take-over': names, 'keep-socket': kept = [] } = flags;
  if (names) return handedSockets(names, CHANNEL_FD + 1, kept);
  return flags['tell-ready'] ? NO_SOCKETS : inheritedSockets(environment, process.pid);
}

/** Variables of a service manager that are meant for this process alone. */
const OWN_VARIABLES: ReadonlySet<string> = new Set(['LISTEN_PID', 'LISTEN_FDS', 'LISTEN_FDNAMES', 'WATCHDOG_PID']);
/** Flags for the start of this process alone. */
const OWN_FLAGS: ReadonlySet<string> = new Set(['tell-ready', 'take-over', 'keep-socket']);

/** Command line of the new daemon: the same program path and flags; a new version may have been installed at that path. */
function launchOf(flags: DaemonFlags, environment: Environment) {
  const given = Object.entries(flags).filter(([name]) => !OWN_FLAGS.has(name));
  const words = given.flatMap(([name, value]) =>
    [value].flat().map((it) => (it === true ? `--${name}` : `--${name}=${it}`)),
  );
  const env = Object.fromEntries(Object.entries(environment).filter(([name]) => !OWN_VARIABLES.has(name)));
  return { program: process.execPath, args: [...process.execArgv, process.argv[1] as string, ...words], env };
}

/** Why a daemon can't hand over: other processes would end with it. */
function obstacleOf(flags: DaemonFlags): string | undefined {
  if (flags.foreground || process.channel)
    return 'this daemon runs in the foreground and ends with the program that started it; end that, and start it again';
  if (process.pid === 1) return 'this daemon is the first process of its container; start the container again';
  return undefined;
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
