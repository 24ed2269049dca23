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
import { guard, type Masks, maskMounts, onDisk } from './masks.ts';
import { type OutputPipe, openOutputPipe } from './output-pipe.ts';
import { hasWalls, type PathRun } from './path-evidence.ts';
import type { Walls } from './path-walls.ts';
import { COMPUTED, LATE_BASH, toBashArgs, toLateVariables } from './prologue.ts';

/** What is to be known of a command so that bubblewrap can begin. */
export interface Shape {
  /** Whether it is given something to read. */
  readonly feeds: boolean;
  /** Whether it may connect. */
  readonly connects: boolean;
  /** Whether its calls on paths are heard of. */
  readonly isHeard: boolean;
  readonly bounds: CommandBounds;
  /** Arguments of bash, where they are too long to come later. */
  readonly bashArgs?: readonly string[];
}

export function shapeOf(request: CommandRequest, { rlimits, paths }: CommandSetup): Shape {
  const bashArgs = toBashArgs({ ...request, rlimits });
  return {
    feeds: request.stdin !== undefined,
    connects: request.egressToken !== undefined,
    isHeard: hasWalls(request) && (paths?.isOn ?? false),
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

/** The descriptors by which its calls are heard of come after those of the egress proxy. */
const heardBy = ({ connects }: Shape): number =>
  COMMAND_STATUS_FD + 1 + egressOf(connects ? '' : undefined).stdio.length;
/** The pipe by which it is told comes after all of the command's start. */
const toldBy = (shape: Shape): number => heardBy(shape) + (shape.isHeard ? 2 : 0);

/** Starts bubblewrap. Throws SANDBOX_UNAVAILABLE. */
export function begin(shape: Shape, setup: CommandSetup, powers: Powers): Begun {
  const { feeds, connects, isHeard, bounds, bashArgs = LATE_BASH } = shape;
  const line = heardBy(shape);
  using parts = new DisposableStack();
  const group = parts.use(setup.groups?.open(bounds));
  const [stdout, stderr] = [parts.use(openOutputPipe()), parts.use(openOutputPipe())];
  const filter = openSync(setup.filterFile, 'r');
  try {
    const egress = egressOf(connects ? '' : undefined);
    const heard = isHeard ? (setup.paths?.descriptorsAt(line) ?? []) : [];
    const before = [feeds ? 'pipe' : 'ignore', stdout.writer, stderr.writer, filter, 'pipe'] as const;
    const options: SpawnOptions = {
      stdio: [...before, ...egress.stdio, ...heard, 'pipe', ...(group?.holds ? (['pipe'] as const) : [])],
      env: setup.environment,
      cwd: '/',
    };
    const first = isHeard ? [`/proc/self/fd/${line + 1}`] : [];
    const program = [...egress.first, ...first, '/bin/bash', ...bashArgs];
    const args = [...setup.args, '--args', `${toldBy(shape)}`, '--', ...program];
    const spawn = () => powers.spawn(setup.bwrap, args, options);
    const child = group ? group.spawn(spawn) : spawn();
    const kept = parts.move();
    return { shape, child, group, stdout, stderr, [Symbol.dispose]: () => kept.dispose() };
  } finally {
    closeSync(filter);
  }
}

/**
 * Has it build the sandbox of a command of its shape, and run that; gives who hears what it meets. Throws INPUT_INVALID; then it
 * is ended, and has built nothing.
 */
export function tell(
  { child, group, shape }: Begun,
  request: CommandRequest,
  setup: CommandSetup,
): PathRun | undefined {
  const fd = toldBy(shape);
  const egress = egressOf(request.egressToken);
  let told: string;
  let heard: PathRun | undefined;
  try {
    const masks = masksOf(request, setup);
    heard = shape.isHeard ? setup.paths?.open(wallsOf(request, masks, setup)) : undefined;
    const around = { egress, hold: group?.holdArgs(fd + 1) ?? [], ...(heard && { greeting: heard.greeting }) };
    told = toTold(shape, request, { setup, masks, around });
  } catch (error) {
    child.on('error', () => {}).kill('SIGKILL');
    heard?.[Symbol.dispose]();
    throw error;
  }
  // EPIPE: it has ended, and says why.
  const pipe = (child.stdio as readonly unknown[])[fd] as Writable;
  pipe.on('error', () => {}).end(told);
  // While it builds: nothing waits for this.
  heard?.begin();
  egress.give(child);
  return heard;
}

const wallsOf = (request: CommandRequest, masks: Masks, { args }: CommandSetup): Walls => ({
  ...{ workspace: request.workspace, masks, system: systemOf(args) },
});

/** What bubblewrap's arguments show of the machine, read-only. */
const systemOf = (args: readonly string[]): string[] =>
  args.flatMap((it, i) => (SHOWS.has(it) ? [args[i + 2] as string] : []));

const SHOWS = new Set(['--ro-bind', '--ro-bind-try', '--symlink']);

/** Arguments of bubblewrap, each with a NUL behind it: one inside of a word would begin an argument of the caller's, who could have all mounted. */
function toTold(
  shape: Shape,
  request: CommandRequest,
  { setup, masks, around }: { readonly setup: CommandSetup; readonly masks: Masks; readonly around: Around },
): string {
  const variables = shape.bashArgs ? [] : (toLateVariables(toBashArgs({ ...request, rlimits: setup.rlimits })) ?? []);
  // The variables last: of what is cut off, if we die here, nothing runs.
  const options = [
    ...optionsOf(request, setup, { masks, ...around }),
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
  /** Of who hears of its calls on paths. */
  readonly greeting?: PathRun['greeting'];
}

/** bwrap's arguments for one command; `launcher` stands between the sandbox and bash. */
export function toSandboxArgs(request: CommandRequest, setup: CommandSetup, around: Around = {}): string[] {
  const { launcher = [], egress = NO_EGRESS } = around;
  const bash = ['/bin/bash', ...toBashArgs({ ...request, rlimits: setup.rlimits })];
  const options = optionsOf(request, setup, { masks: masksOf(request, setup), ...around });
  return [...setup.args, ...options, '--', ...egress.first, ...launcher, ...bash];
}

/**
 * Those that are of this very command, but for its program. None of the caller's variables (LD_PRELOAD …) reaches bwrap while it still has rights, nor bash
 * before its limits are set: `toBashArgs` holds them, but for those that bash must not be told by assignment.
 */
function optionsOf(
  request: CommandRequest,
  setup: CommandSetup,
  { masks, egress = NO_EGRESS, hold = [], greeting }: Around & { readonly masks: Masks },
): string[] {
  const early = Object.entries(request.env).filter(([name]) => COMPUTED.some((it) => it === name));
  const own = Object.entries({ ...setup.environment, ...egress.environment });
  // The greeting is for the first program, which takes the first one away.
  const env = [...(greeting ? [greeting] : []), ...own, ...early].flatMap(([name, value]) => ['--setenv', name, value]);
  return [
    ...egress.args,
    ...maskArgs(request, masks),
    ...hold,
    ...['--json-status-fd', `${COMMAND_STATUS_FD}`, '--clearenv', ...env, '--chdir', request.cwd],
  ];
}

/** The masks hold what is there as the command starts; the gateway's word on it may be some milliseconds old. */
const masksOf = ({ workspace, masks }: CommandRequest, { guarded }: CommandSetup): Masks =>
  onDisk(guard(masks, workspace, guarded), workspace);

function maskArgs({ workspace, readOnly = false }: CommandRequest, masks: Masks): string[] {
  const mounts = maskMounts(masks, workspace, !readOnly);
  // Over the writable one: a remount would leave mounts below it as they are.
  return [...(readOnly ? [{ kind: 'ro', path: workspace } as const] : []), ...mounts].flatMap(toArgs);
}
