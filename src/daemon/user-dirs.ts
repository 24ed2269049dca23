/** The paths of a user's daemon: sockets, state, config. Every entry loads this file, so it imports nothing heavy. */
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { userInfo } from 'node:os';
import { dirname, isAbsolute, join, resolve } from 'node:path';

export type Environment = Readonly<Record<string, string | undefined>>;

/** Paths of a daemon, all absolute. */
export interface UserDirs {
  readonly socket: string;
  /** The MCP socket, beside the other one. */
  readonly mcpSocket: string;
  readonly stateDir: string;
  readonly configFile: string;
  readonly home: string;
  /** XDG's config folder, which also holds the person's git settings. */
  readonly configHome: string;
}

export interface UserDirFlags {
  readonly socket?: string | undefined;
  readonly state?: string | undefined;
}

/** Finds the paths by flag, environment and convention (XDG); creates and reads nothing. */
export function findUserDirs(flags: UserDirFlags, env: Environment): UserDirs {
  const home = env.HOME || userInfo().homedir;
  const stateDir = resolve(
    flags.state ?? (env.RINGFENCE_STATE || join(env.XDG_STATE_HOME || join(home, '.local/state'), 'ringfence')),
  );
  // An empty variable counts as none, as the XDG specification says.
  const configHome = env.XDG_CONFIG_HOME || join(home, '.config');
  const runtime = env.XDG_RUNTIME_DIR;
  const byDefault =
    runtime && flags.state === undefined ? join(runtime, 'ringfence/ringfence.sock') : join(stateDir, 'ringfence.sock');
  const socket = resolve(flags.socket ?? env.RINGFENCE_SOCKET ?? byDefault);
  return {
    home,
    configHome,
    stateDir,
    socket,
    mcpSocket: mcpSocketOf(socket),
    configFile: env.RINGFENCE_CONFIG ?? join(configHome, 'ringfence/config.yaml'),
  };
}

export class StateDirError extends Error {}

/** A file in every state directory that a daemon has used. */
const LOCK = 'daemon.lock';

export const lockFile = (stateDir: string): string => join(stateDir, LOCK);

/**
 * Creates the state directory, or closes it to others if it is empty or already Ringfence's. Creates folders one by
 * one: below a folder that can't hold others, such as /proc, Node's `recursive` retries for ever. Throws
 * StateDirError.
 */
export function makeStateDir(stateDir: string): void {
  const missing: string[] = [];
  for (let at = stateDir; !existsSync(at) && at !== dirname(at); at = dirname(at)) missing.unshift(at);
  try {
    for (const it of missing) makeFolder(it);
    if (!statSync(stateDir).isDirectory()) throw Object.assign(new Error(), { code: 'ENOTDIR' });
    closeStateDir(stateDir);
  } catch (error) {
    if (error instanceof StateDirError) throw error;
    const { code } = error as NodeJS.ErrnoException;
    throw new StateDirError(
      `the state directory ${stateDir} can't be created or used: ${code}; choose another one with --state`,
    );
  }
}

/** Removes the permissions of others, but never from a directory with foreign content: as root that would break /tmp. */
function closeStateDir(stateDir: string): void {
  const mode = statSync(stateDir).mode & 0o7777;
  if ((mode & 0o077) === 0) return;
  if (!isOursAlone(stateDir))
    throw new StateDirError(
      `${stateDir} is open to others (mode ${mode.toString(8)}) and was not created by Ringfence; ` +
        `choose a directory that does not exist, is empty or is readable only by you, such as --state ${join(stateDir, 'ringfence')}`,
    );
  chmodSync(stateDir, 0o700);
}

/** Whether `path` is a state directory of this user, or an empty directory that can become one. */
export function isOursAlone(path: string): boolean {
  const { mode, uid } = statSync(path);
  const isShared = (mode & 0o1000) !== 0 || uid !== process.getuid?.();
  if (isShared) return false;
  const names = readdirSync(path);
  return names.length === 0 || names.includes(LOCK);
}

function makeFolder(path: string): void {
  try {
    mkdirSync(path, { mode: 0o700 });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error; // Another process was quicker.
  }
}

/** `mcp.sock` beside `ringfence.sock`; derived from any other socket name, since two daemons may share a folder. */
function mcpSocketOf(socket: string): string {
  const name = socket.slice(dirname(socket).length + 1).replace(/\.sock$/, '');
  return join(dirname(socket), name === 'ringfence' ? 'mcp.sock' : `${name}.mcp.sock`);
}

/** The sockets of a running daemon, as published in its state directory, where clients with a scrubbed environment find them. */
export interface Endpoint {
  readonly pid: number;
  readonly socket: string;
  readonly mcpSocket: string;
}

const endpointFile = (stateDir: string): string => join(stateDir, 'endpoint.json');

/** The file beside a socket outside the state directory; it names the state directory. */
const stateFile = (socket: string): string => `${socket}.json`;

/** Writes the endpoint to the state directory and beside the socket until it is disposed. */
export function publishEndpoint(stateDir: string, { pid, socket, mcpSocket }: Endpoint): Disposable {
  const paths = [endpointFile(stateDir), ...(dirname(socket) === stateDir ? [] : [stateFile(socket)])];
  const text = `${JSON.stringify({ pid, socket, mcpSocket, stateDir })}\n`;
  for (const path of paths) {
    writeFileSync(`${path}.new`, text, { mode: 0o600 });
    renameSync(`${path}.new`, path);
  }
  return {
    [Symbol.dispose]: () => {
      for (const path of paths) rmSync(path, { force: true });
    },
  };
}

/**
 * The state directory of a socket's daemon, for a caller that knows only the socket: its own folder, or the one named
 * in the file beside it, if only the owner of both could have written that. Undefined if neither is known.
 */
export function stateOf(socket: string): string | undefined {
  if (existsSync(join(dirname(socket), 'operator.token'))) return dirname(socket);
  const uid = process.getuid?.();
  try {
    const [folder, file] = [statSync(dirname(socket)), statSync(stateFile(socket))];
    if (folder.uid !== uid || file.uid !== uid || (folder.mode & 0o022) !== 0) return undefined;
    const { stateDir } = JSON.parse(readFileSync(stateFile(socket), 'utf8')) as { stateDir?: unknown };
    return typeof stateDir === 'string' && isAbsolute(stateDir) ? stateDir : undefined;
  } catch {
    return undefined; // ENOENT, or the file is not ours.
  }
}

/** The endpoint that the last daemon of a state directory published; the daemon may be gone. */
export function readEndpoint(stateDir: string): Endpoint | undefined {
  try {
    const { pid, socket, mcpSocket } = JSON.parse(readFileSync(endpointFile(stateDir), 'utf8')) as Endpoint;
    return typeof socket === 'string' && typeof mcpSocket === 'string' ? { pid, socket, mcpSocket } : undefined;
  } catch {
    return undefined; // No daemon has run, or the file has another shape.
  }
}

/**
 * Candidates for the MCP socket, the likeliest first. `uid` locates the runtime directory if the environment does not
 * name it. A socket given explicitly is the only candidate.
 */
export function mcpSockets(flags: UserDirFlags, env: Environment, uid: number): string[] {
  const { stateDir, mcpSocket } = findUserDirs(flags, env);
  if (flags.socket !== undefined || env.RINGFENCE_SOCKET !== undefined) return [mcpSocket];
  const announcedSocket = readEndpoint(stateDir)?.mcpSocket;
  const inRuntime =
    flags.state === undefined && env.RINGFENCE_STATE === undefined ? [join(runtimeDir(uid), 'ringfence/mcp.sock')] : [];
  return [...new Set([mcpSocket, ...inRuntime, ...(announcedSocket === undefined ? [] : [announcedSocket])])];
}

const runtimeDir = (uid: number): string => `/run/user/${uid}`;

/** The environment with the user's runtime directory, if a client has dropped it. */
export function withRuntimeDir(env: Environment, uid: number): Environment {
  const folder = runtimeDir(uid);
  return env.XDG_RUNTIME_DIR === undefined && existsSync(folder) ? { ...env, XDG_RUNTIME_DIR: folder } : env;
}
