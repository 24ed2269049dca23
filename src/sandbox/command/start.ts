/**
 * The start of a command: bubblewrap builds its sandbox, and bash in it runs the command. The sandbox may have been built before the
 * command is known, for one like it; then bash waits for its words. What is masked is found out when the command is known, however
 * long ago that was: a sandbox that was built with other masks, or one of whose masks is not where it was put any more, is not used.
 */
import type { ChildProcess, SpawnOptions } from 'node:child_process';
import { closeSync, lstatSync, openSync } from 'node:fs';
import type { Readable, Writable } from 'node:stream';
import { ToolError } from '../../errors.ts';
import type { CommandBounds } from '../../limits.ts';
import type { Powers } from '../../powers.ts';
import { areCovered, boundPaths, NotInPlace } from '../binds-in-place.ts';
import {
  asOwner,
  COMMAND_STATUS_FD,
  type Cover,
  GIT_SYSTEM,
  homeMount,
  isNameless,
  toArgBytes,
  toArgs,
} from '../bubblewrap.ts';
import { GitCopies, type GivenConfig, givenConfigs, withoutLinks } from '../git/config/copies.ts';
import { type CommandEgress, egressOf, NO_EGRESS } from '../listener-program.ts';
import { guard, type Masks, maskMounts, onDisk, socketMounts } from '../masks.ts';
import { mountsOf } from '../proc.ts';
import type { CommandRequest, CommandSetup } from './command.ts';
import type { CommandGroup } from './group.ts';
import { type OutputPipe, openOutputPipe } from './output-pipe.ts';
import { COMPUTED, type Gate, toBashArgs, toWaitingBashArgs, toWords } from './prologue.ts';
import { Status } from './status.ts';

/** Of a request, what its sandbox is built of. */
export type Parts = Pick<
  CommandRequest,
  'cwd' | 'workspace' | 'readOnly' | 'asOwner' | 'masks' | 'bounds' | 'home' | 'sockets'
>;

/** What a sandbox is built of, as far as commands differ in it. */
export interface Shape {
  readonly bounds: CommandBounds;
  readonly cwd: string;
  /** Which directory that is: whatever becomes of its name, a process that is in it stays in it. */
  readonly cwdIs: string;
  readonly asOwner: boolean;
  /** File of its seccomp program. */
  readonly filterFile: string;
  /** bubblewrap's arguments for its home. */
  readonly home: readonly string[];
  /** Over the workspace, in order. */
  readonly masks: readonly Cover[];
  /** What those masks keep from it. */
  readonly withheld: Masks;
  /** Files that git tracks, of those that are hidden. */
  readonly tracked: number;
  /** Configs of repositories that it has copies of. */
  readonly gitConfigs: readonly GivenConfig[];
  readonly workspace: string;
}

/** The masks hold what is there now; the gateway's word on it may be some milliseconds old. Throws SANDBOX_UNAVAILABLE. */
export function shapeOf(request: Parts, setup: Omit<CommandSetup, 'watchdog' | 'groups' | 'waiting'>): Shape {
  const { guarded, homes, limits, git } = setup;
  const { workspace, readOnly = false, asOwner = false, bounds, cwd, sockets } = request;
  const found = onDisk(guard(request.masks, workspace, guarded), workspace);
  const { covers, tracked } = git?.coversOf(found) ?? { covers: new Map<string, Cover>(), tracked: 0 };
  const masks = maskMounts(found, workspace, !readOnly).map((it) => covers.get(it.path) ?? it);
  const ofGit = [...covers.values()].filter((it) => !masks.includes(it));
  const mounts = [...masks, ...ofGit, ...socketMounts(sockets ?? [], workspace, found)];
  const kept = request.home === undefined ? undefined : homes?.pathOf(request.home);
  return {
    ...{ bounds, cwd, cwdIs: identityOf(cwd), asOwner },
    filterFile: sockets ? setup.ownSocketsFilterFile : setup.filterFile,
    // One that may change nothing has none: an empty folder on a read-only root.
    home: readOnly ? [] : homeMount(kept, limits.commandTmpBytes),
    // Over the writable one: a remount would leave mounts below it as they are.
    masks: [...(readOnly ? [{ kind: 'ro', path: workspace } as const] : []), ...mounts],
    ...{ withheld: found, tracked, workspace, gitConfigs: readOnly ? [] : givenConfigs(found, { workspace, cwd }) },
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
  /** Its copies of repositories' configs. */
  readonly copies: GitCopies;
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
  const begun = start({ shape, bash, env: {}, stdio: ['pipe', 'pipe'] }, setup, powers);
  const stdio = begun.child.stdio as readonly unknown[];
  const [line, said] = [stdio[LINE_FD] as Writable, stdio[BUILT_FD] as Readable];
  // EPIPE: it has ended, and says why.
  line.on('error', () => {});
  const { promise: built, resolve } = Promise.withResolvers<void>();
  const waiting = { ...begun, line, built, isBuilt: false };
  // What bubblewrap says comes by another pipe, and may be read later.
  said.on('error', () => {});
  said.once('data', () =>
    begun.status.onInit(async (init) => {
      await begun.copies.lay(init);
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
 * Whether each mask of one that is built is where it was put, and shows what it was to show: the kernel takes a mount away when its
 * place is removed or replaced in another namespace, and moves it along when that is renamed.
 */
export function isMasked({ status, shape }: Pick<Begun, 'status' | 'shape'>): boolean {
  if (shape.masks.length === 0) return true;
  const mounts = status.init === undefined ? undefined : mountsOf(status.init);
  return mounts !== undefined && areCovered(shape.masks, withoutLinks(mounts));
}

/** Whether bash has to wait until `isMasked` is known: only what is bound by a name can be swapped for something else. */
export const needsGate = ({ masks }: Shape): boolean => boundPaths(masks).length > 0;

/** Lets a bash at its gate go on. Rejects with SANDBOX_UNAVAILABLE where it must not; never settles where it doesn't come so far. */
export function letThrough(
  child: ChildProcess,
  { status, shape, copies }: Pick<Begun, 'status' | 'shape'> & Partial<Pick<Begun, 'copies'>>,
  gate: Gate,
) {
  const stdio = child.stdio as readonly unknown[];
  const [line, said] = [stdio[gate.fd] as Writable, stdio[gate.builtFd] as Readable];
  // EPIPE, ECONNRESET: it has ended, and says why.
  for (const it of [line, said]) it.on('error', () => {});
  return new Promise<void>((resolve, reject) => {
    said.once('data', () =>
      status.onInit(async (init) => {
        if (!isMasked({ status, shape })) return reject(new NotInPlace());
        await copies?.lay(init);
        line.end('\n');
        resolve();
      }),
    );
  });
}

/**
 * Whether it is never built ahead: what it hides and somebody removes meanwhile would be there again, empty, since bubblewrap makes what
 * it is to mount on. At a command's start that is as old as masks are; right after an answer is when people remove things.
 */
export const hides = ({ masks }: Shape): boolean =>
  masks.some(({ kind }) => kind === 'hidden' || kind === 'replaced' || kind === 'listed');

/** Builds one for a command, which begins at once. Throws SANDBOX_UNAVAILABLE, INPUT_INVALID. */
export function begin(shape: Shape, request: CommandRequest, setup: CommandSetup, powers: Powers): Begun {
  const egress = egressOf(request.egressToken);
  const first = LINE_FD + egress.stdio.length;
  const gate = needsGate(shape) ? { fd: first, builtFd: first + 1 } : undefined;
  const bash = toBashArgs({ ...request, rlimits: setup.rlimits, ...(gate && { gate }) });
  const feeds = request.stdin !== undefined;
  const stdio = [...egress.stdio, ...(gate ? (['pipe', 'pipe'] as const) : [])];
  const begun = start({ shape, bash, env: request.env, egress, feeds, stdio }, setup, powers);
  egress.give(begun.child);
  if (!gate || begun.child.pid === undefined) return begun;
  const through = letThrough(begun.child, begun, gate);
  const admitted = Promise.all([begun.admitted, through]).then(() => {});
  // Whoever has it then is told.
  admitted.catch(() => {});
  return { ...begun, admitted };
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
}

function start(own: Own, setup: CommandSetup, powers: Powers): Begun {
  const { shape, bash, env, egress, feeds = false, stdio } = own;
  using parts = new DisposableStack();
  const group = parts.use(setup.groups?.open(shape.bounds));
  const [stdout, stderr] = [parts.use(openOutputPipe()), parts.use(openOutputPipe())];
  const nameless = toArgBytes(shape.masks);
  const masksFd = LINE_FD + stdio.length;
  const told = nameless.length > 0 ? (['pipe'] as const) : [];
  const copiesFd = masksFd + told.length;
  const copies = parts.use(new GitCopies(shape.gitConfigs, { workspace: shape.workspace, firstFd: copiesFd }, powers));
  const { pipes } = copies;
  const around = {
    ...(egress && { egress }),
    ...(nameless.length > 0 && { masksFd }),
    copies: copies.args,
    hold: group?.holdArgs(copiesFd + pipes.length) ?? [],
  };
  const args = withoutNul(toSandboxArgs({ shape, env, bash }, setup, around));
  const filter = openSync(shape.filterFile, 'r');
  let child: ChildProcess;
  try {
    const before = [feeds ? 'pipe' : 'ignore', stdout.writer, stderr.writer, filter, 'pipe'] as const;
    const options: SpawnOptions = {
      stdio: [...before, ...stdio, ...told, ...pipes, ...(group?.holds ? (['pipe'] as const) : [])],
      env: setup.environment,
      cwd: '/',
    };
    const spawn = () => powers.spawn(setup.bwrap, args, options);
    child = group ? group.spawn(spawn) : spawn();
  } finally {
    closeSync(filter);
  }
  // EPIPE: it has ended, and says why.
  if (nameless.length > 0) (child.stdio[masksFd] as Writable).on('error', () => {}).end(nameless);
  const status = new Status(child.stdio[COMMAND_STATUS_FD] as Readable);
  copies.feed(child, status);
  const admitted = new Promise<void>((resolve, reject) => {
    status.onInit((init) => (group ? group.admit(init, child).then(resolve, reject) : resolve()));
  });
  // Whoever has it then is told.
  admitted.catch(() => {});
  const kept = parts.move();
  return {
    ...{ shape, child, status, group, admitted, stdout, stderr, copies },
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
  /** What bubblewrap is told of copies of configs. */
  readonly copies?: readonly string[];
  /** What bubblewrap is told of its group. */
  readonly hold?: readonly string[];
  /** By which descriptor it is told of masks over paths that are not UTF-8. */
  readonly masksFd?: number;
}

/**
 * bwrap's arguments for one command; `launcher` stands between the sandbox and bash. None of the caller's variables (LD_PRELOAD …)
 * reaches bwrap while it still has rights, nor bash before its limits are set: `toBashArgs` holds them, but for those that bash must
 * not be told by assignment.
 */
export function toSandboxArgs(
  { shape, env, bash }: Pick<Own, 'shape' | 'env' | 'bash'>,
  setup: CommandSetup,
  { launcher = [], egress = NO_EGRESS, copies = [], hold = [], masksFd }: Around = {},
): string[] {
  const early = Object.entries(env).filter(([name]) => COMPUTED.some((it) => it === name));
  const { gitIdentity } = setup;
  const own = Object.entries({ ...setup.environment, ...gitIdentity?.environment, ...egress.environment });
  const variables = [...own, ...early].flatMap(([name, value]) => ['--setenv', name, value]);
  return [
    ...(shape.asOwner ? asOwner(setup.args) : setup.args),
    ...egress.args,
    ...(gitIdentity ? toArgs({ kind: 'ro-at', path: gitIdentity.folder, at: GIT_SYSTEM }) : []),
    ...shape.home,
    ...shape.masks.filter((it) => !isNameless(it)).flatMap(toArgs),
    ...(masksFd === undefined ? [] : ['--args', `${masksFd}`]),
    ...copies,
    ...hold,
    ...['--json-status-fd', `${COMMAND_STATUS_FD}`, '--clearenv', ...variables, '--chdir', shape.cwd],
    ...['--', ...egress.first, ...launcher, '/bin/bash', ...bash],
  ];
}
