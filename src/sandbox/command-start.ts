/**
 * The start of a command, in two steps: bubblewrap begins, knowing what all commands have in common and which streams this one
 * has, and waits; then it is told the rest, and builds the sandbox. What is masked is found out with the second step, however
 * long the first one is past.
 */
import type { ChildProcess, SpawnOptions } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import type { Writable } from 'node:stream';
import { ToolError } from '../errors.ts';
import type { CommandBounds } from '../limits.ts';
import type { Powers } from '../powers.ts';
import { COMMAND_STATUS_FD, toArgs } from './bubblewrap.ts';
import type { CommandRequest, CommandSetup } from './command.ts';
import type { CommandGroup } from './command-group.ts';
import { type CommandEgress, egressOf, NO_EGRESS } from './listener-program.ts';
import { guard, maskMounts, onDisk } from './masks.ts';
import { type OutputPipe, openOutputPipe } from './output-pipe.ts';
import { COMPUTED, LATE_BASH, toBashArgs, toLateVariables } from './prologue.ts';

/** What is to be known of a command so that bubblewrap can begin. */
export interface Shape {
  /** Whether it is given something to read. */
  readonly feeds: boolean;
  /** Whether it may connect. */
  readonly connects: boolean;
  readonly bounds: CommandBounds;
  /** Arguments of bash, where they are too long to come later. */
  readonly bashArgs?: readonly string[];
}

export function shapeOf(request: CommandRequest, { rlimits }: CommandSetup): Shape {
  const bashArgs = toBashArgs({ ...request, rlimits });
  return {
    feeds: request.stdin !== undefined,
    connects: request.egressToken !== undefined,
    bounds: request.bounds,
    ...(toLateVariables(bashArgs) === undefined && { bashArgs }),
  };
}

/** bubblewrap, which waits to be told what to build. Disposed of, its group is let go, and the pipes that nobody has begun to read. */
export interface Begun extends Disposable {
  readonly shape: Shape;
  readonly child: ChildProcess;
  readonly group: CommandGroup | undefined;
  readonly stdout: OutputPipe;
  readonly stderr: OutputPipe;
}

/** The pipe by which it is told comes after the descriptors of the command's start. */
const toldBy = (connects: boolean): number => COMMAND_STATUS_FD + 1 + egressOf(connects ? '' : undefined).stdio.length;

/** Starts bubblewrap. Throws SANDBOX_UNAVAILABLE. */
export function begin(shape: Shape, setup: CommandSetup, powers: Powers): Begun {
  const { feeds, connects, bounds, bashArgs = LATE_BASH } = shape;
  using parts = new DisposableStack();
  const group = parts.use(setup.groups?.open(bounds));
  const [stdout, stderr] = [parts.use(openOutputPipe()), parts.use(openOutputPipe())];
  const filter = openSync(setup.filterFile, 'r');
  try {
    const egress = egressOf(connects ? '' : undefined);
    const before = [feeds ? 'pipe' : 'ignore', stdout.writer, stderr.writer, filter, 'pipe'] as const;
    const options: SpawnOptions = {
      stdio: [...before, ...egress.stdio, 'pipe', ...(group?.holds ? (['pipe'] as const) : [])],
      env: setup.environment,
      cwd: '/',
    };
    const program = [...egress.first, '/bin/bash', ...bashArgs];
    const args = [...setup.args, '--args', `${toldBy(connects)}`, '--', ...program];
    const spawn = () => powers.spawn(setup.bwrap, args, options);
    const child = group ? group.spawn(spawn) : spawn();
    const kept = parts.move();
    return { shape, child, group, stdout, stderr, [Symbol.dispose]: () => kept.dispose() };
  } finally {
    closeSync(filter);
  }
}

/** Has it build the sandbox of a command of its shape, and run that. Throws INPUT_INVALID; then it is ended, and has built nothing. */
export function tell({ child, group, shape }: Begun, request: CommandRequest, setup: CommandSetup): void {
  const fd = toldBy(shape.connects);
  const egress = egressOf(request.egressToken);
  let told: string;
  try {
    told = toTold(shape, request, { setup, around: { egress, hold: group?.holdArgs(fd + 1) ?? [] } });
  } catch (error) {
    child.on('error', () => {}).kill('SIGKILL');
    throw error;
  }
  // EPIPE: it has ended, and says why.
  const pipe = (child.stdio as readonly unknown[])[fd] as Writable;
  pipe.on('error', () => {}).end(told);
  egress.give(child);
}

/** Arguments of bubblewrap, each with a NUL behind it: one inside of a word would begin an argument of the caller's, who could have all mounted. */
function toTold(
  shape: Shape,
  request: CommandRequest,
  { setup, around }: { readonly setup: CommandSetup; readonly around: Around },
): string {
  const variables = shape.bashArgs ? [] : (toLateVariables(toBashArgs({ ...request, rlimits: setup.rlimits })) ?? []);
  // The variables last: of what is cut off, if we die here, nothing runs.
  const options = [
    ...optionsOf(request, setup, around),
    ...variables.flatMap(([name, value]) => ['--setenv', name, value]),
  ];
  if (options.some((it) => it.includes('\0')))
    throw new ToolError('INPUT_INVALID', 'no word or variable of a command may hold a NUL byte');
  return options.map((it) => `${it}\0`).join('');
}

/** What stands around a command. */
export interface Around {
  /** Programs that become bash. */
  readonly launcher?: readonly string[];
  readonly egress?: CommandEgress;
  /** What bubblewrap is told of its group. */
  readonly hold?: readonly string[];
}

/** bwrap's arguments for one command; `launcher` stands between the sandbox and bash. */
export function toSandboxArgs(request: CommandRequest, setup: CommandSetup, around: Around = {}): string[] {
  const { launcher = [], egress = NO_EGRESS } = around;
  const bash = ['/bin/bash', ...toBashArgs({ ...request, rlimits: setup.rlimits })];
  return [...setup.args, ...optionsOf(request, setup, around), '--', ...egress.first, ...launcher, ...bash];
}

/**
 * Those that are of this very command, but for its program. None of the caller's variables (LD_PRELOAD …) reaches bwrap while it still has rights, nor bash
 * before its limits are set: `toBashArgs` holds them, but for those that bash must not be told by assignment.
 */
function optionsOf(request: CommandRequest, setup: CommandSetup, { egress = NO_EGRESS, hold = [] }: Around): string[] {
  const early = Object.entries(request.env).filter(([name]) => COMPUTED.some((it) => it === name));
  const own = Object.entries({ ...setup.environment, ...egress.environment });
  const env = [...own, ...early].flatMap(([name, value]) => ['--setenv', name, value]);
  return [
    ...egress.args,
    ...maskArgs(request, setup),
    ...hold,
    ...['--json-status-fd', `${COMMAND_STATUS_FD}`, '--clearenv', ...env, '--chdir', request.cwd],
  ];
}

/** The masks hold what is there as the command starts; the gateway's word on it may be some milliseconds old. */
function maskArgs({ workspace, masks, readOnly = false }: CommandRequest, { guarded }: CommandSetup): string[] {
  const all = guard(masks, workspace, guarded);
  const mounts = maskMounts(onDisk(all, workspace), workspace, !readOnly);
  // Over the writable one: a remount would leave mounts below it as they are.
  return [...(readOnly ? [{ kind: 'ro', path: workspace } as const] : []), ...mounts].flatMap(toArgs);
}
