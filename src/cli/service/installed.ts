/** `ringfence service`: the daemon as a service of systemd, from its units to its removal. */

import { existsSync, readFileSync, rmSync } from 'node:fs';
import { userInfo } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { bin, version } from '../../base/runtime.ts';
import { readAdded } from '../../daemon/config/added.ts';
import { writeWhole } from '../../daemon/config/write-whole.ts';
import { readConfigFile } from '../../daemon/config.ts';
import { findUserDirs, isOursAlone, lockFile, type UserDirs } from '../../daemon/user-dirs.ts';
import { lockHolder } from '../../store/database.ts';
import { type CliCaller, connect } from '../connect.ts';
import { CliError, EXIT, harmless, OperatorError, print, printJson, say, UsageError } from '../output.ts';
import type { Status } from '../status.ts';
import { upgrade } from '../upgrade.ts';
import { movingProgram } from './stable-node.ts';
import { createSystemd, type Systemd, show, unitState } from './systemd.ts';
import { type Scope, unitFiles, unitName, unitNames } from './units.ts';

export interface ServiceFlags {
  readonly system?: boolean;
  readonly print?: boolean;
  readonly now?: boolean;
  /** End the daemon before the new one starts, also where it could hand over. */
  readonly stop?: boolean;
  /** For example `10m`. */
  readonly drain?: string;
  readonly purge?: boolean;
  readonly follow?: boolean;
  readonly json?: boolean;
}

export interface Service {
  readonly scope: Scope;
  /** The person whose daemon it is. */
  readonly user: string;
  /** The folder of the unit files. */
  readonly folder: string;
  readonly dirs: UserDirs;
  readonly systemd: Systemd;
  readonly caller: CliCaller;
}

export function serviceOf(flags: ServiceFlags, caller: CliCaller): Service {
  const scope = flags.system ? 'system' : 'user';
  const { env } = caller;
  const dirs = findUserDirs({}, env);
  return {
    scope,
    // With sudo the person who asks is meant, not root.
    user: (scope === 'system' ? env.SUDO_USER : undefined) ?? userInfo().username,
    folder: scope === 'system' ? '/etc/systemd/system' : join(dirs.configHome, 'systemd/user'),
    dirs,
    systemd: createSystemd(scope),
    caller,
  };
}

/** The daemon's entry, which a unit starts. */
const daemonProgram = join(dirname(bin), 'ringfenced.js');

const filesOf = (scope: Scope): ReadonlyMap<string, string> =>
  unitFiles({ scope, node: process.execPath, program: daemonProgram });

/** `service install`: writes and enables the units, and starts them with `now`. Returns the exit code. */
export async function serviceInstall(flags: ServiceFlags, service: Service): Promise<number> {
  const { scope, folder, user, systemd, dirs } = service;
  const moving = movingProgram({ node: process.execPath, program: bin });
  if (flags.print) {
    printUnits(service);
    if (moving !== undefined) say(moving);
    return EXIT.OK;
  }
  if (moving !== undefined) throw new UsageError(moving);
  assertRunning(service, 'nothing was written; print the units with --print, or run `ringfence serve --detach`');
  if (scope === 'system' && process.getuid?.() !== 0)
    throw new UsageError(`only root may write to ${folder}: sudo ringfence service install --system`);
  // The settings of a system unit lie in the home of its user, which sudo does not name.
  if (scope === 'user') assertSettings(dirs, flags);
  writeUnits(service, filesOf(scope));
  systemd.control(['enable', ...(flags.now ? ['--now'] : []), ...unitNames(scope, user)]);
  say(`the service ${unitName(scope, user)} is installed in ${folder}${flags.now ? ' and started' : ''}`);
  if (scope === 'user') say(`to keep it running while you are logged out: loginctl enable-linger ${user}`);
  if (!flags.now) say(`to start it: ringfence service restart${scope === 'system' ? ' --system' : ''}`);
  return flags.now ? await confirmLevel(service) : EXIT.OK;
}

function printUnits({ folder, scope }: Service): void {
  print([...filesOf(scope)].map(([name, text]) => `# ${join(folder, name)}\n${text}`).join('\n'));
}

function assertRunning({ systemd }: Pick<Service, 'systemd'>, advice: string): void {
  if (!systemd.isRunning)
    throw new CliError(EXIT.UNREACHABLE, `systemd is not running on this machine (no /run/systemd/system); ${advice}`);
}

/** Refuses what would make the service fail at its start. */
function assertSettings(dirs: UserDirs, { now }: ServiceFlags): void {
  const { configFile, stateDir } = dirs;
  if (!readConfigFile(configFile).workspaces?.length && readAdded(dirs).length === 0)
    throw new UsageError(
      `${configFile} names no workspaces, and a service has no current folder; add the folders of your projects: ringfence workspace add DIR`,
    );
  const holder = now ? lockHolder(lockFile(stateDir)) : undefined;
  if (holder !== undefined)
    throw new OperatorError(`a daemon already runs (pid ${holder}); stop it first: ringfence stop`);
}

/** Writes all units, or leaves everything as it was. */
export function writeUnits(
  { folder, systemd }: Pick<Service, 'folder' | 'systemd'>,
  files: ReadonlyMap<string, string>,
): void {
  const before = new Map(
    [...files.keys()].map((name) => {
      const path = join(folder, name);
      return [path, existsSync(path) ? readFileSync(path, 'utf8') : undefined];
    }),
  );
  try {
    for (const [name, text] of files) writeWhole(join(folder, name), text);
    systemd.control(['daemon-reload']);
  } catch (error) {
    for (const [path, text] of before) {
      if (text === undefined) rmSync(path, { force: true });
      else writeWhole(path, text);
    }
    throw error;
  }
}

/** Asks the daemon behind the service's socket; undefined if it does not answer. */
async function runningDaemon({ caller, dirs }: Service): Promise<Status | undefined> {
  try {
    await using client = await connect({ ...caller, flags: { autostart: false }, role: 'operator' });
    return (await client.request('status', {})) as Status;
  } catch (error) {
    if (!(error instanceof CliError)) throw error;
    say(`${harmless(error.message)} (state ${dirs.stateDir})`);
    return undefined;
  }
}

/** Reports the confinement that the daemon measured inside of its unit; anything below level A is a failure. */
async function confirmLevel(service: Service): Promise<number> {
  const { scope, user } = service;
  if (isOfAnother(service)) {
    const { StatusText: text = '' } = unitState(service.systemd, `${unitName(scope, user)}.service`);
    say(text === '' ? 'it has not reported its confinement yet' : text);
    return text === LEVEL_A ? EXIT.OK : EXIT.FAILED;
  }
  const daemon = await runningDaemon(service);
  if (!daemon) throw new OperatorError('the service does not answer; read why with: ringfence service logs');
  const { level, missing } = daemon.confinement;
  if (level === 'A') {
    say(`version ${daemon.version}, pid ${daemon.pid}: confinement level A inside of the unit`);
    return EXIT.OK;
  }
  throw new OperatorError(
    `inside of its unit the daemon reaches only confinement level ${level}, without ${missing.join(', ')}; \`ringfence doctor\` says what the machine lacks, and \`systemctl${scope === 'user' ? ' --user' : ''} cat ${unitName(scope, user)}\` shows whether a drop-in hardens the unit too far`,
  );
}

/** The text with which a daemon reports the highest level to systemd. */
const LEVEL_A = 'confinement level A';

export async function serviceStatus(flags: ServiceFlags, service: Service): Promise<number> {
  const { scope, user, folder, systemd } = service;
  const files = [...filesOf(scope).keys()].filter((it) => existsSync(join(folder, it)));
  const isInstalled = files.length > 0;
  const unit = `${unitName(scope, user)}.service`;
  const state = systemd.isRunning && isInstalled ? unitState(systemd, unit) : undefined;
  // Connecting would start a service whose socket waits.
  const daemon = state?.ActiveState === 'active' ? await runningDaemon(service) : undefined;
  const onDisk = isInstalled
    ? versionOnDisk(join(folder, files.find((it) => it.endsWith('.service')) ?? ''))
    : undefined;
  const facts = { installed: isInstalled, systemd: systemd.isRunning, unit, state, onDisk, daemon };
  if (flags.json) printJson(facts);
  else describe(facts);
  return daemon?.confinement.level === 'A' ? EXIT.OK : EXIT.FAILED;
}

function describe(told: {
  installed: boolean;
  systemd: boolean;
  unit: string;
  state: Readonly<Record<string, string>> | undefined;
  onDisk: string | undefined;
  daemon: Status | undefined;
}): void {
  const { unit, state, onDisk, daemon } = told;
  if (!told.installed) return print(`${unit} is not installed; to install it: ringfence service install`);
  if (!told.systemd) return print(`${unit} is installed, but systemd is not running on this machine`);
  print(
    `${unit} ${state?.ActiveState} (${state?.SubState}), pid ${state?.MainPID}, ${state?.NRestarts} restarts, last result ${state?.Result}`,
  );
  print(`version ${onDisk ?? 'unknown'} on disk, ${daemon ? `${daemon.version} running` : 'none running'}`);
  if (daemon) {
    const { level, missing } = daemon.confinement;
    print(
      `confinement level ${level}${missing.length > 0 ? ` (missing: ${missing.join(', ')})` : ''}, measured at its start`,
    );
  }
  if (daemon && onDisk !== undefined && daemon.version !== onDisk)
    say(`the running version differs from the one on disk; to take it: ringfence service restart`);
}

/** The version of the program that a unit file starts. */
function versionOnDisk(unit: string): string | undefined {
  const program = /^ExecStart=.*?(\/\S*\/bin\/ringfenced\.js)/m.exec(readFileSync(unit, 'utf8'))?.[1];
  if (program === undefined) return undefined;
  if (program === daemonProgram) return version;
  const manifest = resolve(dirname(program), '../package.json');
  return existsSync(manifest) ? /"version": "([^"]+)"/.exec(readFileSync(manifest, 'utf8'))?.[1] : undefined;
}

/** `service logs`: the journal, or the daemon's own log where there is none. Returns the exit code. */
export async function serviceLogs({ follow = false }: ServiceFlags, service: Service): Promise<number> {
  const { scope, user, dirs, systemd } = service;
  if (systemd.isRunning) return await systemd.journal(`${unitName(scope, user)}.service`, follow);
  const log = join(dirs.stateDir, 'daemon.log');
  if (!existsSync(log))
    throw new OperatorError(`there is neither a journal nor ${log}, which a daemon in the background writes`);
  return await show('tail', ['-n', '200', ...(follow ? ['-F'] : []), '--', log]);
}

/**
 * `service restart`: the running daemon hands over to a new one where it can, and no call is lost; otherwise, and with
 * `stop`, it ends first. Returns the exit code.
 */
export async function serviceRestart(flags: ServiceFlags, service: Service): Promise<number> {
  const { scope, user, systemd, caller } = service;
  assertRunning(service, 'to restart a daemon of your own: ringfence upgrade');
  const obstacle = flags.stop ? '--stop says so' : await handOverObstacle(service);
  if (obstacle === undefined) {
    await handOver(flags, caller);
  } else {
    say(`calls that run are ended, since ${obstacle}`);
    // The sockets stay open meanwhile, so that clients wait instead of failing.
    systemd.control(['restart', `${unitName(scope, user)}.service`]);
  }
  return await confirmLevel(service);
}

async function handOver({ drain }: ServiceFlags, caller: CliCaller): Promise<void> {
  try {
    await upgrade(drain === undefined ? {} : { drain }, caller);
  } catch (error) {
    if (!(error instanceof OperatorError) || error instanceof UsageError) throw error;
    throw new OperatorError(`${error.message}; to end it before: ringfence service restart --stop`);
  }
}

/** Why the service's daemon can't hand over to a new one that is like it; undefined if it can. */
async function handOverObstacle(service: Service): Promise<string | undefined> {
  const { scope, user, folder, systemd } = service;
  if (isOfAnother(service)) return `only ${user} may ask that daemon to hand over: ringfence upgrade`;
  const { ActiveState, MainPID } = unitState(systemd, `${unitName(scope, user)}.service`);
  // Connecting would start a service whose socket waits.
  const daemon = ActiveState === 'active' ? await runningDaemon(service) : undefined;
  if (!daemon) return 'the service does not answer';
  if (daemon.pid !== Number(MainPID)) return `another daemon (pid ${daemon.pid}) has the socket of the service`;
  const unit = [...filesOf(scope).keys()].find((it) => it.endsWith('.service')) as string;
  const start = /^ExecStart=.*$/m.exec(readFileSync(join(folder, unit), 'utf8'))?.[0] ?? '';
  const words = readFileSync(`/proc/${daemon.pid}/cmdline`, 'utf8').split('\0');
  const isSame = [words[0], words.find((it) => it.endsWith('/bin/ringfenced.js'))].every(
    (it) => it !== undefined && start.includes(it),
  );
  return isSame ? undefined : 'the unit starts another Node or Ringfence than the one that runs';
}

/** Whether the service runs as a person who did not call this, and who alone has the token of its operator. */
const isOfAnother = ({ scope, user }: Service): boolean => scope === 'system' && userInfo().username !== user;

/** `service uninstall`: also removes the state with `purge`. Returns the exit code. */
export async function serviceUninstall(flags: ServiceFlags, service: Service): Promise<number> {
  const { scope, user, folder, systemd, dirs } = service;
  const paths = [...filesOf(scope).keys()].map((it) => join(folder, it)).filter((it) => existsSync(it));
  if (systemd.isRunning && paths.length > 0) systemd.control(['disable', '--now', ...unitNames(scope, user)]);
  for (const it of paths) rmSync(it);
  if (systemd.isRunning && paths.length > 0) systemd.control(['daemon-reload']);
  say(paths.length > 0 ? `removed ${paths.join(', ')}` : `there are no units in ${folder}`);
  if (flags.purge) purge(dirs);
  return EXIT.OK;
}

/** Removes the state directory, with the record and everything that undo needs. */
function purge({ stateDir }: UserDirs): void {
  if (!existsSync(stateDir)) return say(`there is no state at ${stateDir}`);
  const holder = lockHolder(lockFile(stateDir));
  if (holder !== undefined)
    throw new OperatorError(`${stateDir} was kept: a daemon uses it (pid ${holder}); stop it first: ringfence stop`);
  if (!isOursAlone(stateDir))
    throw new UsageError(`${stateDir} was kept: it is not the state directory of a daemon of yours`);
  rmSync(stateDir, { recursive: true });
  say(`removed ${stateDir}`);
}
