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
import { COMMAND_STATUS_FD, type Cover, toArgs } from './bubblewrap.ts';
import type { CommandRequest, CommandSetup } from './command.ts';
import type { CommandGroup } from './command-group.ts';
import { Status } from './command-status.ts';
import { type CommandEgress, egressOf, NO_EGRESS } from './listener-program.ts';
import { guard, maskMounts, onDisk } from './masks.ts';
import { type OutputPipe, openOutputPipe } from './output-pipe.ts';
import { mountPointsOf } from './proc.ts';
import { COMPUTED, toBashArgs, toWaitingBashArgs, toWords } from './prologue.ts';

/** Of a request, what its sandbox is built of. */
export type Parts = Pick<CommandRequest, 'cwd' | 'workspace' | 'readOnly' | 'masks' | 'bounds'>;

/** What a sandbox is built of, as far as commands differ in it. */
export interface Shape {
  readonly bounds: CommandBounds;
  readonly cwd: string;
  /** Which directory that is: whatever becomes of its name, a process that is in it stays in it. */
  readonly cwdIs: string;
  /** Over the workspace, in order. */
  readonly masks: readonly Cover[];
}

/** The masks hold what is there now; the gateway's word on it may be some milliseconds old. Throws SANDBOX_UNAVAILABLE. */
export function shapeOf(request: Parts, { guarded }: CommandSetup): Shape {
  const { workspace, readOnly = false, bounds, cwd } = request;
  const mounts = maskMounts(onDisk(guard(request.masks, workspace, guarded), workspace), workspace, !readOnly);
  return {
    ...{ bounds, cwd, cwdIs: identityOf(cwd) },
    // Over the writable one: a remount would leave mounts below it as they are.
    masks: [...(readOnly ? [{ kind: 'ro', path: workspace } as const] : []), ...mounts],
  };
}

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
  const bash = toWaitingBashArgs(LINE_FD, BUILT_FD);
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

const SETTLED_MS = 100;

/**
 * Whether nobody is changing what a sandbox masks. Where what it hides is gone when it is mounted over, bubblewrap makes it, empty: what
 * a person removes at that moment would be there again. Folders that are not hidden change with all that is in them.
 */
export const isSettled = ({ masks }: Shape, nowMs: number): boolean =>
  masks.every(({ kind, path }) => changedMs(path, kind === 'hidden') + SETTLED_MS < nowMs);

function changedMs(path: string, isHidden: boolean): number {
  try {
    const stat = lstatSync(path);
    return stat.isDirectory() && !isHidden ? 0 : stat.ctimeMs;
  } catch {
    return Number.POSITIVE_INFINITY; // ENOENT: it is being removed.
  }
}

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
  const around = { ...(egress && { egress }), hold: group?.holdArgs(LINE_FD + stdio.length) ?? [] };
  const args = withoutNul(toSandboxArgs({ shape, env, bash }, setup, around));
  const filter = openSync(setup.filterFile, 'r');
  let child: ChildProcess;
  try {
    const before = [feeds ? 'pipe' : 'ignore', stdout.writer, stderr.writer, filter, 'pipe'] as const;
    const options: StartOptions = {
      stdio: [...before, ...stdio, ...(group?.holds ? (['pipe'] as const) : [])],
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
  const status = new Status(child.stdio[COMMAND_STATUS_FD] as Readable);
  const admitted = new Promise<void>((resolve, reject) => {
    status.onInit((init) => (group ? group.admit(init, child).then(resolve, reject) : resolve()));
  });
  // Whoever has it then is told.
  admitted.catch(() => {});
  const kept = parts.move();
  return { ...{ shape, child, status, group, admitted, stdout, stderr }, [Symbol.dispose]: () => kept.dispose() };
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
  { launcher = [], egress = NO_EGRESS, hold = [] }: Around = {},
): string[] {
  const early = Object.entries(env).filter(([name]) => COMPUTED.some((it) => it === name));
  const own = Object.entries({ ...setup.environment, ...egress.environment });
  const variables = [...own, ...early].flatMap(([name, value]) => ['--setenv', name, value]);
  return [
    ...setup.args,
    ...egress.args,
    ...shape.masks.flatMap(toArgs),
    ...hold,
    ...['--json-status-fd', `${COMMAND_STATUS_FD}`, '--clearenv', ...variables, '--chdir', shape.cwd],
    ...['--', ...egress.first, ...launcher, '/bin/bash', ...bash],
  ];
}
