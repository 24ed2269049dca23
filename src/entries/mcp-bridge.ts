/**
 * `ringfence mcp` connects an MCP client to the daemon's socket, and to the daemon that replaces it. Clients start one
 * per window, so it loads next to nothing; standard output carries only the client's protocol.
 */
import type { Socket } from 'node:net';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { type Environment, mcpSockets, withRuntimeDir } from '../daemon/user-dirs.ts';
import { Bridge } from '../faces/mcp/bridge.ts';
import { openLine } from '../faces/mcp/bridge-messages.ts';
import { connectUnix } from '../wire/transport/unix-socket.ts';

/** Exit codes, the same as of the other verbs: usage, no daemon, a signal. */
const EXIT = { USAGE: 2, UNREACHABLE: 3, INTERRUPTED: 130, TERMINATED: 143 };
/** Milliseconds, with a margin, for the daemon to answer open requests after the client has closed its input. */
const END_MS = 2_000;
/** Retries while another bridge may be starting the daemon. */
const START_TRIES = 200;
const START_TRY_MS = 50;

/** Loaded only when needed, which is rare. */
const wait = async (ms: number): Promise<void> => (await import('node:timers/promises')).scheduler.wait(ms);

const say = (text: string): void => void process.stderr.write(`ringfence mcp: ${text}\n`);

function leave(code: number, why?: string): never {
  if (why !== undefined) say(why);
  process.exit(code);
}

function readFlags() {
  try {
    return parseArgs({
      options: {
        socket: { type: 'string' },
        state: { type: 'string' },
        workspace: { type: 'string' },
        tools: { type: 'string' },
        'read-only': { type: 'boolean' },
        policy: { type: 'string' },
        mode: { type: 'string' },
        'no-autostart': { type: 'boolean' },
      },
      args: process.argv.slice(3),
    }).values;
  } catch (error) {
    return leave(EXIT.USAGE, `${(error as Error).message} (ringfence mcp --help says more)`);
  }
}

type Flags = ReturnType<typeof readFlags>;

const uid = process.getuid?.() ?? 0;

/** A folder of a machine of a fleet, as a gateway takes it. */
const ON_NODE = /^[a-z0-9-]+:\//;

/** Connects to the first socket at which a daemon answers. Throws the refusal of a socket that belongs to another user. */
async function findDaemon(flags: Flags, env: Environment): Promise<Socket | undefined> {
  for (const path of mcpSockets(flags, env, uid)) {
    try {
      return (await connectUnix(path)).socket;
    } catch (error) {
      if (!['ENOENT', 'ECONNREFUSED'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error;
    }
  }
  return undefined;
}

/** Starts a daemon for the client's folder, unless another bridge is doing so. */
async function startDaemon(flags: Flags, env: Environment, folder: string): Promise<Socket> {
  const [{ startDaemon: start, isStartedByAnother, assertProject, forClient }, { findUserDirs }] = await Promise.all([
    import('../cli/connect.ts'),
    import('../daemon/user-dirs.ts'),
  ]);
  const environment = withRuntimeDir(env, uid);
  if (flags.workspace === undefined) assertProject(folder, env);
  const failed = await start(findUserDirs(flags, environment), forClient(folder), {
    env: environment,
    cwd: process.cwd(),
  }).then(
    () => undefined,
    (error: Error) => error,
  );
  for (let tries = 0; tries < START_TRIES; tries++) {
    const socket = await findDaemon(flags, environment);
    if (socket) return socket;
    if (failed && !isStartedByAnother(failed)) break;
    await wait(START_TRY_MS);
  }
  throw failed ?? new Error('the daemon that was started does not answer');
}

/** The first line to the daemon, with what this client wants; docs/mcp.md describes it. */
function opening(flags: Flags, { CLAUDE_PROJECT_DIR: project }: Environment, resolved: string | undefined): string {
  const params = {
    workspace: resolved,
    project,
    cwd: process.cwd(),
    ...(flags.tools !== undefined && {
      tools: flags.tools
        .split(',')
        .map((it) => it.trim())
        .filter(Boolean),
    }),
    ...(flags['read-only'] && { readOnly: true }),
    policy: flags.policy,
    mode: flags.mode,
  };
  return openLine(params);
}

/** The daemon that has taken over; one that is known to come may take a while. */
async function findNext(flags: Flags, isUpgrade: boolean): Promise<Socket | undefined> {
  for (let tries = 0; tries < (isUpgrade ? START_TRIES : 1); tries++) {
    const socket = await findDaemon(flags, process.env);
    if (socket) return socket;
    await wait(START_TRY_MS);
  }
  return undefined;
}

/** Serves the client until it ends, or until no daemon is left. */
function serve(socket: Socket, first: string): void {
  process.stdin.on('end', () => void wait(END_MS).then(() => leave(0)));
  process.stdout.on('error', () => leave(0)); // The client is gone.
  new Bridge(socket, {
    input: process.stdin,
    output: process.stdout,
    opening: first,
    reconnect: (isUpgrade) =>
      findNext(flags, isUpgrade).catch((error: Error) => leave(EXIT.UNREACHABLE, error.message)),
    end: (problem) => (problem === undefined ? leave(0) : leave(EXIT.UNREACHABLE, problem)),
    wait,
  });
}

process.on('SIGINT', () => leave(EXIT.INTERRUPTED));
process.on('SIGTERM', () => leave(EXIT.TERMINATED));
const flags = readFlags();
const env: Environment = process.env;
try {
  const isOnNode = ON_NODE.test(flags.workspace ?? '');
  const workspace = flags.workspace === undefined || isOnNode ? flags.workspace : resolve(flags.workspace);
  let socket = await findDaemon(flags, env);
  // A daemon that starts here has no folder of another machine.
  if (!socket && (flags['no-autostart'] || isOnNode))
    leave(
      EXIT.UNREACHABLE,
      `no daemon listens at ${mcpSockets(flags, env, uid).join(' or ')}; start one with: ringfence serve`,
    );
  socket ??= await startDaemon(flags, env, workspace ?? env.CLAUDE_PROJECT_DIR ?? process.cwd());
  serve(socket, opening(flags, env, workspace));
} catch (error) {
  leave(EXIT.UNREACHABLE, (error as Error).message);
}
