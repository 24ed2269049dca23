/**
 * Starts commands: bubblewrap builds the sandbox, and bash runs the command in it. The sandbox may have been built in advance for
 * commands of the same shape; then bash waits for its words. Masks are computed when the command is known, however old the sandbox
 * is: a sandbox that was built with other masks, or that has lost one of them, is not used.
 */

import type { SpawnOptions } from 'node:child_process';
import { closeSync, constants, lstatSync, openSync, writeSync } from 'node:fs';
import type { Readable, Writable } from 'node:stream';
import { ToolError } from '../../base/errors.ts';
import type { Powers } from '../../base/powers.ts';
import { areCovered, boundPaths, NotInPlace } from '../binds-in-place.ts';
import {
  asOwner,
  COMMAND_STATUS_FD,
  GIT_SYSTEM,
  homeMount,
  toArgBytes,
  toArgs,
  toMaskWords,
  withoutNul,
} from '../bubblewrap.ts';
import { type Door, doorAt, NO_DOOR } from '../door.ts';
import { GitCopies, givenConfigs, withoutLinks } from '../git/config/copies.ts';
import { environmentIn, imageArgs, toEnterWords } from '../image-root.ts';
import { guard, maskMounts, onDisk, socketMounts } from '../masks.ts';
import type { CoveringMount } from '../mount.ts';
import { mountsOf } from '../proc.ts';
import { openOutputPipe } from './output-pipe.ts';
import type { Overlay } from './overlay.ts';
import { COMPUTED, type Gate, type Rlimits, toBashArgs, toWaitingBashArgs, toWords } from './prologue.ts';
import type { CommandRequest, CommandSetup, PipedSandbox, Shape, StartedSandbox } from './request.ts';
import { Status } from './status.ts';

/** The fields of a request that its sandbox depends on. */
export type SandboxRequest = Pick<
  CommandRequest,
  | 'cwd'
  | 'workspace'
  | 'readOnly'
  | 'asOwner'
  | 'masks'
  | 'bounds'
  | 'home'
  | 'sockets'
  | 'overlay'
  | 'egressToken'
  | 'services'
  | 'image'
>;

/** Computes masks from the files that exist now; the gateway's list may be some milliseconds old. Throws SANDBOX_UNAVAILABLE. */
export function shapeOf(request: SandboxRequest, setup: Omit<CommandSetup, 'watchdog' | 'groups' | 'waiting'>): Shape {
  const { guarded, homes, limits, git } = setup;
  const { workspace, readOnly = false, asOwner = false, bounds, cwd, sockets } = request;
  const found = onDisk(guard(request.masks, workspace, guarded), workspace);
  const { covers, tracked } = git?.coversOf(found) ?? { covers: new Map<string, CoveringMount>(), tracked: [] };
  const masks = maskMounts(found, workspace, !readOnly, setup.previewsFolder).map((it) => covers.get(it.path) ?? it);
  const ofGit = [...covers.values()].filter((it) => !masks.includes(it));
  const mounts = [...masks, ...ofGit, ...socketMounts(sockets ?? [], workspace, found)];
  const { home: homeName, tmp: tmpName } = (readOnly ? undefined : request.home) ?? {};
  const homeFolder = homeName === undefined ? undefined : homes?.pathOf(homeName);
  const tmp = tmpName === undefined ? undefined : homes?.tmpOf(tmpName);
  return {
    bounds,
    cwd,
    cwdIs: identityOf(cwd),
    hasDoor: request.egressToken !== undefined,
    services: request.services ?? [],
    asOwner,
    image: request.image,
    filterFile: sockets ? setup.ownSocketsFilterFile : setup.filterFile,
    // A read-only command has no home: an empty folder on a read-only root.
    home: readOnly ? [] : homeMount(homeFolder, limits.commandTmpBytes),
    tmp,
    // Mounted over the writable workspace: a remount would leave the mounts below unchanged.
    masks: [...(readOnly ? [{ kind: 'ro', path: workspace } as const] : []), ...mounts],
    withheld: found,
    tracked,
    workspace,
    // Changes of a copy would be taken over into the repository itself.
    gitConfigs: readOnly || request.overlay ? [] : givenConfigs(found, { workspace, cwd }),
  };
}

/** Empty if the folder can't be read: bubblewrap then reports the error. */
function identityOf(folder: string): string {
  try {
    const { dev, ino, birthtimeNs, ctimeNs } = lstatSync(folder, { bigint: true });
    // Inode numbers are reused at once; birth times are not.
    return `${dev}:${ino}:${birthtimeNs || ctimeNs}`;
  } catch {
    return '';
  }
}

/** The words to send to a waiting sandbox; undefined if the command needs a sandbox of its own. */
export function lateWordsOf(request: CommandRequest, { rlimits }: CommandSetup): Buffer | undefined {
  const { stdin, env, image } = request;
  if (stdin !== undefined || image || COMPUTED.some((it) => Object.hasOwn(env, it))) return undefined;
  withoutNul([request.command, ...(request.argv ?? []), ...Object.entries(env).flat()]);
  return toWords({ ...request, rlimits });
}

/** How the program of a sandbox is attached to its host. */
export interface Attachment {
  /** Descriptors 0, 1 and 2. */
  readonly streams: readonly (number | 'pipe' | 'ignore')[];
  /** Programs that run in the sandbox before bash, the last of which executes it. */
  readonly launcher?: readonly string[];
  /** Gives the words of a program that executes bubblewrap, whose last descriptor is `lastFd`; absent if the host starts bubblewrap itself. */
  readonly outer?: (lastFd: number) => readonly string[];
}

/** A sandbox that waits for its command. */
export interface ReadySandbox extends PipedSandbox {
  /** Pipe that brings the command's words. */
  readonly line: Writable;
  /** Settles when the sandbox is complete, or will never be. */
  readonly built: Promise<void>;
  /** Whether the sandbox is complete. */
  isBuilt: boolean;
}

/** Descriptors between a host and a bash that waits, after those of the door: bash reads its words, and reports that it is there. */
const gateOf = (shape: Shape): Gate => {
  const fd = COMMAND_STATUS_FD + 1 + doorOf(shape).stdio.length;
  return { fd, builtFd: fd + 1 };
};

const doorOf = ({ hasDoor, services }: Shape): Door => (hasDoor ? doorAt(undefined, services) : NO_DOOR);

/** Builds a sandbox that waits for its command. Throws SANDBOX_UNAVAILABLE. */
export function beginWaiting(shape: Shape, setup: CommandSetup, powers: Powers): ReadySandbox {
  const gate = gateOf(shape);
  const program = ['/bin/bash', ...toWaitingBashArgs(gate, { bounds: shape.bounds, rlimits: setup.rlimits })];
  const begun = piped('ignore', (streams) =>
    start({ shape, program, env: {}, attachment: { streams }, stdio: ['pipe', 'pipe'] }, setup, powers),
  );
  const stdio = begun.child.stdio as readonly unknown[];
  const [line, said] = [stdio[gate.fd] as Writable, stdio[gate.builtFd] as Readable];
  // EPIPE: bubblewrap has ended; its status tells why.
  line.on('error', () => {});
  const { promise: built, resolve } = Promise.withResolvers<void>();
  const waiting = { ...begun, line, built, isBuilt: false };
  // bubblewrap's status comes through another pipe, and may arrive later.
  said.on('error', () => {});
  said.once('data', () =>
    begun.status.onInit(async (init) => {
      await begun.copies.lay(init);
      waiting.isBuilt = true;
      resolve();
    }),
  );
  said.once('close', resolve);
  // When bubblewrap is killed, a process that it leaves behind may keep this pipe open.
  for (const event of ['exit', 'error']) begun.child.once(event, () => resolve());
  return waiting;
}

/**
 * Whether each mask of a built sandbox is still mounted at its path and shows what it should: the kernel removes a mount when its
 * mount point is removed or replaced in another namespace, and moves the mount along when the mount point is renamed. False for a
 * sandbox that has ended, even if nobody was told of its end yet.
 */
export function isMasked({ status, shape }: Pick<StartedSandbox, 'status' | 'shape'>): boolean {
  const mounts = status.init === undefined ? undefined : mountsOf(status.init);
  return mounts !== undefined && areCovered(shape.masks, withoutLinks(mounts));
}

/** Whether bash must wait until `isMasked` is known: only binds by name can be swapped for something else. */
const needsGate = ({ masks }: Shape): boolean => boundPaths(masks).length > 0;

/**
 * Lets a bash that waits at its gate go on. Rejects with SANDBOX_UNAVAILABLE if it must not; never settles if bash
 * does not get there.
 */
function letThrough(
  { child, status, shape, copies }: StartedSandbox,
  gate: Gate,
  overlay: Overlay | undefined,
): Promise<void> {
  const stdio = child.stdio as readonly unknown[];
  const [line, said] = [stdio[gate.fd] as Writable, stdio[gate.builtFd] as Readable];
  // EPIPE, ECONNRESET: bubblewrap has ended; its status tells why.
  for (const it of [line, said]) it.on('error', () => {});
  return new Promise<void>((resolve, reject) => {
    said.once('data', () =>
      status.onInit(async (init) => {
        try {
          if (!isMasked({ status, shape })) throw new NotInPlace();
          overlay?.hold(child.pid as number);
          await copies.lay(init);
          line.end('\n');
          resolve();
        } catch (error) {
          reject(error);
        }
      }),
    );
  });
}

/**
 * Whether the sandbox is never built ahead of time: bubblewrap creates missing mount points, so a hidden file that is removed in the
 * meantime would reappear, empty. At a command's start the masks are fresh; right after a result is when people remove files.
 */
export const hides = ({ masks }: Shape): boolean =>
  masks.some(({ kind }) => kind === 'hidden' || kind === 'replaced' || kind === 'listed');

/** Builds a sandbox for a command, which begins at once. Throws SANDBOX_UNAVAILABLE, INPUT_INVALID. */
export function begin(shape: Shape, request: CommandRequest, setup: CommandSetup, powers: Powers): PipedSandbox {
  const stdin = request.stdin === undefined ? 'ignore' : 'pipe';
  const { overlay } = request;
  const outer = overlay && { outer: () => overlay.words };
  return piped(stdin, (streams) => beginAt({ streams, ...outer }, { shape, request, setup, powers }));
}

/** The same with an attachment of the caller's. */
export function beginAt(
  attachment: Attachment,
  of: { shape: Shape; request: CommandRequest; setup: CommandSetup; powers: Powers },
): StartedSandbox {
  const { shape, request, setup, powers } = of;
  const gate = needsGate(shape) || request.overlay ? gateOf(shape) : undefined;
  const program = programOf(request, { rlimits: setup.rlimits, gate });
  const stdio = gate ? (['pipe', 'pipe'] as const) : [];
  const started = start({ shape, program, env: request.env, attachment, stdio }, setup, powers);
  if (request.egressToken !== undefined) started.give(request.egressToken);
  if (!gate || started.child.pid === undefined) return started;
  const admitted = Promise.all([started.admitted, letThrough(started, gate, request.overlay)]).then(() => {});
  // Avoids an unhandled rejection when nobody awaits it.
  admitted.catch(() => {});
  return { ...started, admitted };
}

/** The first program in the sandbox, which sets the command's limits, with its arguments. */
const programOf = (request: CommandRequest, of: { rlimits: Rlimits; gate: Gate | undefined }): string[] =>
  request.image
    ? toEnterWords(request.argv ?? [], { ...of, bounds: request.bounds })
    : ['/bin/bash', ...toBashArgs({ ...request, ...of })];

/** Starts a sandbox with pipes for its output. */
function piped(stdin: 'pipe' | 'ignore', startWith: (streams: Attachment['streams']) => StartedSandbox): PipedSandbox {
  using parts = new DisposableStack();
  const [stdout, stderr] = [parts.use(openOutputPipe()), parts.use(openOutputPipe())];
  const started = parts.use(startWith([stdin, stdout.writer, stderr.writer]));
  const ownedParts = parts.move();
  return { ...started, stdout, stderr, [Symbol.dispose]: () => ownedParts.dispose() };
}

interface StartRequest {
  readonly shape: Shape;
  /** The first program in the sandbox, and its arguments. */
  readonly program: readonly string[];
  readonly env: CommandRequest['env'];
  readonly attachment: Attachment;
  /** Descriptors after the status descriptor and those of the door. */
  readonly stdio: readonly (number | 'pipe')[];
}

function start(own: StartRequest, setup: CommandSetup, powers: Powers): StartedSandbox {
  const { shape, attachment } = own;
  const door = doorOf(shape);
  const stdio = [...door.stdio, ...own.stdio];
  using parts = new DisposableStack();
  const group = parts.use(setup.groups?.open(shape.bounds, shape.hasDoor));
  const argsFd = COMMAND_STATUS_FD + 1 + stdio.length;
  const copiesFd = argsFd + 1;
  const copies = parts.use(new GitCopies(shape.gitConfigs, { workspace: shape.workspace, firstFd: copiesFd }, powers));
  const { pipes } = copies;
  const hold = group?.holdArgs(copiesFd + pipes.length) ?? [];
  const args = toArgBytes(toSandboxArgs(own, setup, { copies: copies.args, hold }));
  const lastFd = copiesFd + pipes.length - (group?.holds ? 0 : 1);
  const outer = attachment.outer?.(lastFd) ?? [];
  // The command can read the words of its first process, which is bubblewrap, and finds itself in those by `pgrep -f`.
  const early = [NO_NETWORK, '--args', `${argsFd}`];
  const inside = [setup.bwrap, ...early, '--', ...(attachment.launcher ?? []), ...own.program];
  const [program = setup.bwrap, ...words] = withoutNul([...outer, ...door.words, ...inside]);
  using files = new DisposableStack();
  const filter = files.adopt(openSync(shape.filterFile, 'r'), closeSync);
  const more = [...stdio, inMemory(args, files), ...pipes, ...(group?.holds ? (['pipe'] as const) : [])];
  const options: SpawnOptions = {
    stdio: [...attachment.streams, filter, 'pipe', ...more],
    env: setup.environment,
    cwd: '/',
  };
  const spawn = () => powers.spawn(program, words, options);
  const child = group ? group.spawn(spawn) : spawn();
  const status = new Status(child.stdio[COMMAND_STATUS_FD] as Readable);
  const refusedPorts = child.pid === undefined ? new Set<number>() : door.hear(child);
  copies.feed(child, status);
  const admitted = new Promise<void>((resolve, reject) => {
    status.onInit((init) => (group ? group.admit(init, child).then(resolve, reject) : resolve()));
  });
  // Avoids an unhandled rejection when nobody awaits it.
  admitted.catch(() => {});
  const ownedParts = parts.move();
  return {
    shape,
    child,
    status,
    group,
    admitted,
    copies,
    give: (egressToken) => door.give(child, egressToken),
    refusedPorts,
    [Symbol.dispose]: () => ownedParts.dispose(),
  };
}

/** O_TMPFILE is not among Node's constants. */
const WITHOUT_NAME = 0o20000000 | constants.O_DIRECTORY | constants.O_RDWR;

/**
 * A file that holds the bytes, to be read from its beginning: a pipe would be filled only when this thread is idle. Throws
 * SANDBOX_UNAVAILABLE rather than leave out the last of them, which may be masks.
 */
function inMemory(bytes: Uint8Array, files: DisposableStack): number {
  const fd = files.adopt(openSync('/dev/shm', WITHOUT_NAME, 0o600), closeSync);
  if (writeSync(fd, bytes, 0, bytes.length, 0) < bytes.length)
    throw new ToolError('SANDBOX_UNAVAILABLE', 'the arguments of a sandbox do not fit into /dev/shm');
  return fd;
}

/** Stands among the words, from which native/door.c takes it: the door makes the network of a command that has the proxy. */
const NO_NETWORK = '--unshare-net';

/** What surrounds a command in its sandbox. */
interface SandboxAdditions {
  /** bubblewrap arguments for copies of configs. */
  readonly copies: readonly string[];
  /** bubblewrap arguments for its group. */
  readonly hold: readonly string[];
}

/** Arguments of a profile with a kept folder in place of the /tmp in memory. */
function withTmp(args: readonly string[], kept: string | undefined): readonly string[] {
  const at = args.findIndex((it, i) => it === '--tmpfs' && args[i + 1] === '/tmp');
  return kept === undefined || at < 0
    ? args
    : [...args.slice(0, at - 2), '--bind', kept, '/tmp', ...args.slice(at + 2)];
}

/**
 * bwrap arguments for one command, up to its program. None of the caller's variables (LD_PRELOAD …)
 * reaches bwrap while it still has rights, nor bash before its limits are set: `toBashArgs` passes them, except those that bash must
 * not get by assignment.
 */
function toSandboxArgs(
  { shape, env }: StartRequest,
  setup: CommandSetup,
  { copies, hold }: SandboxAdditions,
): (string | Uint8Array)[] {
  // No bash of ours passes on the others to the program of an image.
  const early = Object.entries(env).filter(([name]) => shape.image || COMPUTED.some((it) => it === name));
  const { gitIdentity } = setup;
  const machine = shape.image ? environmentIn(shape.image, setup.environment) : setup.environment;
  const own = Object.entries({ ...machine, ...gitIdentity?.environment, ...doorOf(shape).environment });
  const variables = [...own, ...early].flatMap(([name, value]) => ['--setenv', name, value]);
  const args = shape.image ? imageArgs(shape.image, shape.workspace, setup) : setup.args;
  return [
    ...withTmp(shape.asOwner ? asOwner(args) : args, shape.tmp).filter((it) => it !== NO_NETWORK),
    ...(gitIdentity ? toArgs({ kind: 'ro-at', path: gitIdentity.folder, at: GIT_SYSTEM }) : []),
    ...shape.home,
    ...shape.masks.flatMap(toMaskWords),
    ...copies,
    ...hold,
    ...['--json-status-fd', `${COMMAND_STATUS_FD}`, '--clearenv', ...variables, '--chdir', shape.cwd],
  ];
}
