/**
 * The start of a command: bubblewrap builds its sandbox, and bash in it runs the command. The sandbox may have been built before the
 * command is known, for one like it; then bash waits for its words. What is masked is found out when the command is known, however
 * long ago that was: a sandbox that was built with other masks, or one of whose masks is not where it was put any more, is not used.
 */
import type { ChildProcess } from 'node:child_process';
import { closeSync, lstatSync, openSync } from 'node:fs';
import type { Readable, Writable } from 'node:stream';
import { ToolError } from '../errors.ts';
import type { CommandBounds } from '../limits.ts';
import type { Powers, StartOptions } from '../powers.ts';
import { asOwner, COMMAND_STATUS_FD, type Cover, toArgs } from './bubblewrap.ts';
import type { CommandRequest, CommandSetup } from './command.ts';
import type { CommandGroup } from './command-group.ts';
import { Status } from './command-status.ts';
import { type CommandEgress, egressOf, NO_EGRESS } from './listener-program.ts';
import { guard, maskMounts, onDisk } from './masks.ts';
import { type OutputPipe, openOutputPipe } from './output-pipe.ts';
import type { PathRun } from './path-evidence.ts';
import type { Walls } from './path-walls.ts';
import { mountPointsOf } from './proc.ts';
import { COMPUTED, toBashArgs, toWaitingBashArgs, toWords } from './prologue.ts';

/** Of a request, what its sandbox is built of. */
export type Parts = Pick<CommandRequest, 'cwd' | 'workspace' | 'readOnly' | 'asOwner' | 'masks' | 'bounds'>;

/** What a sandbox is built of, as far as commands differ in it. */
export interface Shape {
  readonly bounds: CommandBounds;
  readonly cwd: string;
  /** Which directory that is: whatever becomes of its name, a process that is in it stays in it. */
  readonly cwdIs: string;
  readonly asOwner: boolean;
  /** Over the workspace, in order. */
  readonly masks: readonly Cover[];
  /** What its calls on paths may meet; absent where nobody hears of those. */
  readonly walls?: Walls;
}

/** The masks hold what is there now; the gateway's word on it may be some milliseconds old. Throws SANDBOX_UNAVAILABLE. */
export function shapeOf(
  request: Parts,
  { guarded, args, paths }: Pick<CommandSetup, 'guarded' | 'args' | 'paths'>,
): Shape {
  const { workspace, readOnly = false, asOwner = false, bounds, cwd } = request;
  const found = onDisk(guard(request.masks, workspace, guarded), workspace);
  const mounts = maskMounts(found, workspace, !readOnly);
  const isHeard = paths?.isOn === true && !readOnly;
  return {
    ...{ bounds, cwd, cwdIs: identityOf(cwd), asOwner },
    // Over the writable one: a remount would leave mounts below it as they are.
    masks: [...(readOnly ? [{ kind: 'ro', path: workspace } as const] : []), ...mounts],
    ...(isHeard && { walls: { workspace, masks: found, system: systemOf(args) } }),
  };
}

const SHOWS = new Set(['--ro-bind', '--ro-bind-try', '--symlink']);

/** What bubblewrap's arguments show of the machine, read-only. */
const systemOf = (args: readonly string[]): string[] =>
  args.flatMap((it, i) => (SHOWS.has(it) ? [args[i + 2] as string] : []));

/** Empty for what can't be looked at: bubblewrap says so of a command that is to run there. */
function identityOf(folder: string): string {
  try {
    const { dev, ino, birthtimeNs, ctimeNs } = lstatSync(folder, { bigint: true });
    // The number of one that was removed may be given to another.
    return `${dev}:${ino}:${birthtimeNs || ctimeNs}`;
  } catch {
    return '';
  }
}

/** The words of a command that may come to a sandbox that waits; undefined where it needs one of its own. */
export function lateWordsOf(request: CommandRequest, { rlimits }: CommandSetup): Buffer | undefined {
  const { stdin, egressToken, env } = request;
  if (stdin !== undefined || egressToken !== undefined || COMPUTED.some((it) => Object.hasOwn(env, it)))
    return undefined;
  withoutNul([request.command, ...(request.argv ?? []), ...Object.entries(env).flat()]);
  return toWords({ ...request, rlimits });
}

/** A sandbox that is being built, or is. Disposed of, its group is let go, and the pipes that nobody has begun to read. */
export interface Begun extends Disposable {
  readonly shape: Shape;
  readonly child: ChildProcess;
  readonly status: Status;
  readonly group: CommandGroup | undefined;
  /** Who hears what it meets; absent where nobody does. */
  readonly heard: PathRun | undefined;
  /** Settles when its init is in its group. Rejects with SANDBOX_UNAVAILABLE; never, where it was not built. */
  readonly admitted: Promise<void>;
  readonly stdout: OutputPipe;
  readonly stderr: OutputPipe;
}

/** One that waits for its command. */
export interface Waiting extends Begun {
  /** By which it is told its words. */
  readonly line: Writable;
  /** Settles when nothing of it is left to build, or when it will not come to that. */
  readonly built: Promise<void>;
  /** Whether nothing of it is left to build. */
  isBuilt: boolean;
}

/** Where the words of a command come from. */
const LINE_FD = COMMAND_STATUS_FD + 1;
/** By which one that waits says that it is built. */
const BUILT_FD = LINE_FD + 1;

/** Builds one that waits. Throws SANDBOX_UNAVAILABLE. */
export function beginWaiting(shape: Shape, setup: CommandSetup, powers: Powers): Waiting {
  const bash = toWaitingBashArgs({ fd: LINE_FD, builtFd: BUILT_FD }, { bounds: shape.bounds, rlimits: setup.rlimits });
  const begun = start({ shape, bash, env: {}, stdio: ['pipe', 'pipe'], writtenFd: BUILT_FD }, setup, powers);
  const stdio = begun.child.stdio as readonly unknown[];
  const [line, said] = [stdio[LINE_FD] as Writable, stdio[BUILT_FD] as Readable];
  // EPIPE: it has ended, and says why.
  line.on('error', () => {});
  const { promise: built, resolve } = Promise.withResolvers<void>();
  const waiting = { ...begun, line, built, isBuilt: false };
  // What bubblewrap says comes by another pipe, and may be read later.
  said.on('error', () => {});
  said.once('data', () =>
    begun.status.onInit(() => {
      waiting.isBuilt = true;
      resolve();
    }),
  );
  said.once('close', resolve);
  // What bubblewrap leaves behind when it is killed may hold that, and go on alone.
  for (const event of ['exit', 'error']) begun.child.once(event, () => resolve());
  return waiting;
}

/**
 * Whether each mask of one that is built is where it was put: the kernel takes a mount away when its place is removed or replaced in
 * another namespace, and moves it along when that is renamed.
 */
export function isMasked({ status, shape }: Begun): boolean {
  if (shape.masks.length === 0) return true;
  const points = status.init === undefined ? undefined : mountPointsOf(status.init);
  return points !== undefined && shape.masks.every(({ path }) => points.has(path));
}

/**
 * Whether it is never built ahead: what it hides and somebody removes meanwhile would be there again, empty, since bubblewrap makes what
 * it is to mount on. At a command's start that is as old as masks are; right after an answer is when people remove things.
 */
export const hides = ({ masks }: Shape): boolean => masks.some(({ kind }) => kind === 'hidden');

/** Builds one for a command, which begins at once. Throws SANDBOX_UNAVAILABLE, INPUT_INVALID. */
export function begin(shape: Shape, request: CommandRequest, setup: CommandSetup, powers: Powers): Begun {
  const egress = egressOf(request.egressToken);
  const bash = toBashArgs({ ...request, rlimits: setup.rlimits });
  const feeds = request.stdin !== undefined;
  const begun = start({ shape, bash, env: request.env, egress, feeds, stdio: egress.stdio }, setup, powers);
  egress.give(begun.child);
  return begun;
}

interface Own {
  readonly shape: Shape;
  /** Arguments of bash. */
  readonly bash: readonly string[];
  readonly env: CommandRequest['env'];
  readonly egress?: CommandEgress;
  /** Whether it is given something to read. */
  readonly feeds?: boolean;
  /** Descriptors after that of its status. */
  readonly stdio: readonly (number | 'pipe')[];
  /** Of those, a pipe that it writes. */
  readonly writtenFd?: number;
}

function start(own: Own, setup: CommandSetup, powers: Powers): Begun {
  const { shape, bash, env, egress, feeds = false, stdio, writtenFd } = own;
  using parts = new DisposableStack();
  const group = parts.use(setup.groups?.open(shape.bounds));
  const [stdout, stderr] = [parts.use(openOutputPipe()), parts.use(openOutputPipe())];
  const heard = shape.walls && parts.use(setup.paths?.open(shape.walls));
  const heardBy = LINE_FD + stdio.length;
  const heardFds = heard ? (setup.paths?.descriptorsAt(heardBy) ?? []) : [];
  const around = {
    ...(egress && { egress }),
    ...(heard && { hearing: { greeting: heard.greeting, first: [`/proc/self/fd/${heardBy + 1}`] } }),
    hold: group?.holdArgs(heardBy + heardFds.length) ?? [],
  };
  const args = withoutNul(toSandboxArgs({ shape, env, bash }, setup, around));
  const filter = openSync(setup.filterFile, 'r');
  let child: ChildProcess;
  try {
    const before = [feeds ? 'pipe' : 'ignore', stdout.writer, stderr.writer, filter, 'pipe'] as const;
    const options: StartOptions = {
      stdio: [...before, ...stdio, ...heardFds, ...(group?.holds ? (['pipe'] as const) : [])],
      env: setup.environment,
      cwd: '/',
      heldFd: COMMAND_STATUS_FD,
      ...(writtenFd !== undefined && { writtenFd }),
    };
    const spawn = () => powers.spawn(setup.bwrap, args, options);
    child = group ? group.spawn(spawn) : spawn();
  } finally {
    closeSync(filter);
  }
  heard?.begin();
  const status = new Status(child.stdio[COMMAND_STATUS_FD] as Readable);
  const admitted = new Promise<void>((resolve, reject) => {
    status.onInit((init) => (group ? group.admit(init, child).then(resolve, reject) : resolve()));
  });
  // Whoever has it then is told.
  admitted.catch(() => {});
  const kept = parts.move();
  return {
    ...{ shape, child, status, group, heard, admitted, stdout, stderr },
    [Symbol.dispose]: () => kept.dispose(),
  };
}

/** Throws INPUT_INVALID. No program can be given one, and a word would end at it that a rule has seen whole. */
function withoutNul<Words extends readonly string[]>(words: Words): Words {
  if (words.some((it) => it.includes('\0')))
    throw new ToolError('INPUT_INVALID', 'no word or variable of a command may hold a NUL byte');
  return words;
}

/** What stands around a command. */
export interface Around {
  /** Programs that become bash. */
  readonly launcher?: readonly string[];
  readonly egress?: CommandEgress;
  /** Its first program of those by whom its calls on paths are heard of, and what that is told. */
  readonly hearing?: { readonly greeting: PathRun['greeting']; readonly first: readonly string[] };
  /** What bubblewrap is told of its group. */
  readonly hold?: readonly string[];
}

/**
 * bwrap's arguments for one command; `launcher` stands between the sandbox and bash. None of the caller's variables (LD_PRELOAD …)
 * reaches bwrap while it still has rights, nor bash before its limits are set: `toBashArgs` holds them, but for those that bash must
 * not be told by assignment.
 */
export function toSandboxArgs(
  { shape, env, bash }: Pick<Own, 'shape' | 'env' | 'bash'>,
  setup: CommandSetup,
  { launcher = [], egress = NO_EGRESS, hearing, hold = [] }: Around = {},
): string[] {
  const early = Object.entries(env).filter(([name]) => COMPUTED.some((it) => it === name));
  const own = Object.entries({ ...setup.environment, ...egress.environment });
  // The greeting comes first, where the first program looks for it.
  const variables = [...(hearing ? [hearing.greeting] : []), ...own, ...early].flatMap(([name, value]) => [
    '--setenv',
    name,
    value,
  ]);
  return [
    ...(shape.asOwner ? asOwner(setup.args) : setup.args),
    ...egress.args,
    ...shape.masks.flatMap(toArgs),
    ...hold,
    ...['--json-status-fd', `${COMMAND_STATUS_FD}`, '--clearenv', ...variables, '--chdir', shape.cwd],
    ...['--', ...egress.first, ...(hearing?.first ?? []), ...launcher, '/bin/bash', ...bash],
  ];
}
