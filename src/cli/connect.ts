/** Connects a verb to the daemon; starts one for this user if none runs, and says so. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, openSync, readFileSync, realpathSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { RPC_CODES } from '../base/errors.ts';
import { isPlacedName } from '../base/paths.ts';
import { cliProgram, daemonProgram, toStart } from '../base/runtime.ts';
import { type Client, type ClientOptions, createClient, RemoteError } from '../client/client.ts';
import {
  type Environment,
  findUserDirs,
  makeStateDir,
  readEndpoint,
  stateOf,
  type UserDirs,
} from '../daemon/user-dirs.ts';
import { CliError, EXIT, harmless, say, UsageError } from './output.ts';

export interface ConnectFlags {
  readonly socket?: string;
  readonly state?: string;
  readonly workspace?: string;
  readonly autostart?: boolean;
  readonly policy?: string;
  readonly mode?: string;
  /** Command lines with the same session name share approvals that a person gave for the session. */
  readonly session?: string;
}

export interface CliCaller {
  readonly flags: ConnectFlags;
  readonly env: Environment;
  readonly cwd: string;
  readonly role?: 'operator';
  /** Whether to use the daemon's first workspace if the folder is in none of its workspaces. */
  readonly anywhere?: boolean;
  /** More options of the client. */
  readonly client?: Partial<ClientOptions>;
}

/**
 * Attempts to connect, and milliseconds between them: another call may be starting the daemon, and a stopping daemon rejects clients during
 * its grace period.
 */
const TRIES = 200;
const TRY_MS = 50;
/** Attempts to connect before the daemon is started again; by then no other call is starting one. */
const TRIES_BETWEEN_STARTS = 20;

/** Whether a daemon did not start because another one runs or is starting. */
export const isStartedByAnother = ({ message }: Error): boolean => /another daemon|already listens/.test(message);

/** A client of the running daemon, or of one that is started now. Throws CliError UNREACHABLE. */
export async function connect({ flags, env, cwd, role, anywhere = false, client }: CliCaller): Promise<Client> {
  const dirs = userDirsOf(flags, env);
  const workspace = workspaceOf(flags, cwd);
  const sessionName = flags.session ?? (env.RINGFENCE_SESSION || undefined);
  let options: ClientOptions = {
    socket: dirs.socket,
    name: 'ringfence-cli',
    ...(role === undefined
      ? { workspace: workspace ?? cwd, mode: flags.mode, sessionName }
      : { role, token: operatorToken(dirs), workspace }),
    ...client,
  };
  let startAgainAt = 0;
  let failed: unknown;
  for (let tries = 0; tries < TRIES; tries++) {
    try {
      return await createClient(options);
    } catch (error) {
      if (anywhere && workspace === undefined && options.workspace !== undefined && isForbidden(error)) {
        const { workspace: _, ...others } = options;
        options = others;
        continue;
      }
      if (isForbidden(error) && (await addsWorkspace(error as Error, options.workspace, dirs))) continue;
      if (!isAbsent(error) && !isStopping(error)) throw error;
      if (isAbsent(error) && (!flags.autostart || !daemonProgram))
        throw new CliError(EXIT.UNREACHABLE, `no daemon listens at ${dirs.socket}; start one with: ${toStart}`);
      if (isAbsent(error) && tries >= startAgainAt) {
        if (workspace === undefined) assertProject(cwd, env);
        failed = await startOrReturnError(dirs, forClient(workspace ?? cwd), { env, cwd });
        startAgainAt = tries + TRIES_BETWEEN_STARTS;
        if (failed === undefined) continue;
      }
    }
    await wait(TRY_MS);
  }
  throw (
    failed ??
    new CliError(
      EXIT.UNREACHABLE,
      `the daemon at ${dirs.socket} does not answer; ${daemonProgram ? 'stop it with: ringfence stop' : 'look with: ringfence vm shell ringfence service status'}`,
    )
  );
}

/** A client with the operator's role in the workspace that is named, or else in the current folder. */
export const connectOperator = ({ flags, ...caller }: CliCaller): Promise<Client> =>
  connect({ ...caller, flags: { ...flags, workspace: flags.workspace ?? caller.cwd }, role: 'operator' });

/** What an action with the operator's role gives; undefined if no daemon runs. */
export async function ifRunning<T>(caller: CliCaller, action: (client: Client) => Promise<T>): Promise<T | undefined> {
  try {
    await using client = await connect({ ...caller, flags: { ...caller.flags, autostart: false }, role: 'operator' });
    return await action(client);
  } catch (error) {
    if (error instanceof CliError && error.exitCode === EXIT.UNREACHABLE) return undefined;
    throw error;
  }
}

/** The folder that is named, or the workspace of a fleet. */
function workspaceOf({ workspace }: ConnectFlags, cwd: string): string | undefined {
  if (workspace === undefined || isPlacedName(workspace)) return workspace;
  return resolve(cwd, workspace);
}

/** The arguments of a daemon that a client starts without being told to, which ends when it is not used any more. */
export const forClient = (workspace: string): string[] => ['--end-when-idle', '--workspace', workspace];

/** Folders that hold files of all programs. */
const TEMPORARY = ['/tmp', '/var/tmp', '/dev/shm'];

/**
 * Refuses to start a daemon unasked in a folder of temporary files, where agents would see the files of all programs.
 * The daemon itself refuses the home directory and `/`. Throws CliError.
 */
export function assertProject(folder: string, { TMPDIR }: Environment): void {
  const real = (path: string) => (existsSync(path) ? realpathSync(path) : path);
  if (![...TEMPORARY, ...(TMPDIR ? [TMPDIR] : [])].map(real).includes(real(folder))) return;
  throw new UsageError(
    `${folder} holds the temporary files of all programs and is no project; go to the folder of a project, or allow it with --workspace ${folder}`,
  );
}

/** Starts a daemon and says so; returns the error if another one runs or is starting. Throws CliError. */
async function startOrReturnError(
  dirs: UserDirs,
  args: string[],
  from: { env: Environment; cwd: string },
): Promise<unknown> {
  try {
    const { pid } = await startDaemon(dirs, args, from);
    say(`started a daemon (pid ${pid}, socket ${dirs.socket}); stop it with \`ringfence stop\``);
    return undefined;
  } catch (error) {
    if (!isStartedByAnother(error as Error)) throw error;
    return error;
  }
}

/** Offers at a terminal to add the folder that the daemon of this machine has refused. Gives whether it was added. */
async function addsWorkspace({ message }: Error, folder: string | undefined, dirs: UserDirs): Promise<boolean> {
  const isOffered = message.includes('ringfence workspace add') && process.stdin.isTTY && process.stderr.isTTY;
  if (folder === undefined || !isOffered || !daemonProgram) return false;
  const { askPerson } = await import('./own-files.ts');
  const answer = await askPerson(
    `${harmless(folder)} is not a workspace of the daemon: agents may not work there. Add it? [y/N] `,
  );
  if (!/^y(es)?$/i.test(answer.trim())) return false;
  const [program, ...args] = cliProgram as [string, ...string[]];
  const add = [...args, 'workspace', 'add', folder, '--state', dirs.stateDir];
  return spawnSync(program, add, { stdio: ['ignore', 'ignore', 'inherit'] }).status === 0;
}

/** Whether the error means that the daemon is stopping and rejects clients. */
export const isStopping = (error: unknown): boolean => (error as Error).message === 'the connection was closed';

const isForbidden = (error: unknown): boolean => error instanceof RemoteError && error.code === RPC_CODES.FORBIDDEN;

/** The default directories, or the ones recorded in the state directory by its daemon, which may have been started with another environment. */
export function userDirsOf(flags: ConnectFlags, env: Environment): UserDirs {
  const dirs = findUserDirs(flags, env);
  const stateBeside = flags.state === undefined && env.RINGFENCE_STATE === undefined && stateOf(dirs.socket);
  if (flags.socket !== undefined && stateBeside) return { ...dirs, stateDir: stateBeside };
  if (flags.socket !== undefined || env.RINGFENCE_SOCKET !== undefined || existsSync(dirs.socket)) return dirs;
  const endpoint = readEndpoint(dirs.stateDir);
  return endpoint && existsSync(endpoint.socket) ? { ...dirs, ...endpoint } : dirs;
}

const isAbsent = (error: unknown): boolean =>
  ['ENOENT', 'ENOTDIR', 'ECONNREFUSED'].includes((error as NodeJS.ErrnoException).code ?? '');

function operatorToken({ stateDir }: UserDirs): string {
  const path = join(stateDir, 'operator.token');
  if (!existsSync(path))
    throw new CliError(
      EXIT.UNREACHABLE,
      `no daemon has run with state directory ${stateDir} yet (${path} does not exist); start one with: ${toStart}`,
    );
  return readFileSync(path, 'utf8').trim();
}

interface DaemonNotice {
  pid: number;
  listeners: string[];
  confinement: { level: string; missing: string[]; advice: string };
  policyNote?: string;
}

/** Starts a daemon in its own session with its log in the state directory; settles when it is ready. Throws CliError. */
export async function startDaemon(
  dirs: UserDirs,
  args: readonly string[],
  { env, cwd }: { env: Environment; cwd: string },
): Promise<DaemonNotice> {
  if (!daemonProgram) throw new CliError(EXIT.UNREACHABLE, `this package has no daemon; start one with: ${toStart}`);
  makeStateDir(dirs.stateDir);
  const log = join(dirs.stateDir, 'daemon.log');
  const output = openSync(log, 'a', 0o600);
  const where = ['--state', dirs.stateDir, '--socket', dirs.socket];
  const [program, ...before] = daemonProgram as [string, ...string[]];
  const child = spawn(program, [...before, '--tell-ready', ...where, ...args], {
    detached: true,
    stdio: ['ignore', output, output, 'pipe'],
    env: { ...env },
    cwd,
  });
  child.unref();
  // The daemon has its own descriptor of the log, and this process may go on for days.
  closeSync(output);
  await once(child, 'spawn');
  let text = '';
  for await (const chunk of child.stdio[3] as NodeJS.ReadableStream) text += chunk;
  const notice =
    text === ''
      ? { error: `it ended at once; read why in ${log}` }
      : (JSON.parse(text) as DaemonNotice | { error: string });
  if ('error' in notice) throw new CliError(EXIT.UNREACHABLE, `the daemon did not start: ${notice.error}`);
  if (notice.policyNote !== undefined) say(notice.policyNote);
  if (notice.confinement.advice) say(`confinement level ${notice.confinement.level}: ${notice.confinement.advice}`);
  return notice;
}
