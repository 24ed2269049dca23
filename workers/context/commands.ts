/** Runs the commands of one job, and adds up what they used. */
import type { WithheldPaths } from '../../src/base/call.ts';
import { type Code, ToolError } from '../../src/base/errors.ts';
import type { CommandBounds, Limits } from '../../src/base/limits.ts';
import type { Powers } from '../../src/base/powers.ts';
import type { CommandFacts, JobUsage } from '../../src/hosts/job.ts';
import { inPlace } from '../../src/sandbox/binds-in-place.ts';
import { type CommandOutcome, runCommand } from '../../src/sandbox/command/command.ts';
import { NEAR } from '../../src/sandbox/command/group.ts';
import type { CommandRequest, CommandSetup } from '../../src/sandbox/command/request.ts';
import type { TakenOver } from '../../src/sandbox/git/config/take-over.ts';
import type { Masks } from '../../src/sandbox/masks.ts';
import { type ExceededLimit, verdictOf } from '../../src/sandbox/watchdog.ts';
import type { CommandResult, ProgramResult } from '../../src/tools/tool.ts';
import { keyDenied } from './denials.ts';
import { foreignPathIn } from './foreign-owner.ts';
import type { EndedCommand } from './withheld.ts';

export interface CommandsOptions {
  /** Absent in hosts that run no commands. */
  readonly command?: CommandSetup | undefined;
  readonly limits: Limits;
  readonly powers: Powers;
  /** The paths that the sandbox kept from a command, for the result of a failed one. */
  toWithheld(masks: Masks, ended: EndedCommand): WithheldPaths | undefined;
  /** Called with the full size of an output that was cut. */
  truncated(bytesTotal: number): void;
}

export class Commands {
  readonly used: Pick<JobUsage, 'cpuMs' | 'outputBytes' | 'peakBytes' | 'processes' | 'verdict' | 'command'> = {
    cpuMs: 0,
    outputBytes: 0,
    verdict: 'ok',
  };
  readonly #options: CommandsOptions;

  constructor(options: CommandsOptions) {
    this.#options = options;
  }

  get enforcedBy(): string {
    const { command } = this.#options;
    if (!command) return 'worker thread, timer';
    if (command.groups) return `${command.groups.enforcedBy}, pid namespace, timer, rlimits`;
    return 'pid namespace, timer, rlimits, watchdog';
  }

  get #met(): CommandFacts {
    this.used.command ??= {};
    return this.used.command;
  }

  /** Runs a command to its end. Throws SANDBOX_DENIED if the host runs none, the code of the limit that ended it, CANCELLED. */
  async run(request: CommandRequest): Promise<CommandResult> {
    const outcome = await this.#outcomeOf(request);
    const { exitCode, signal, stdout, stderr, durationMs, outputBytes } = outcome;
    const { tracked, captured } = outcome;
    if (tracked.length > 0)
      this.#met.trackedHidden = { count: tracked.length, first: tracked.toSorted().slice(0, TRACKED_TOLD_MAX) };
    if (couldNotConfigure(stderr)) this.#met.gitConfigHeld = true;
    if (metFileLimit(stderr)) this.#met.fileLimitMet = true;
    if (outcome.truncated) this.#options.truncated(outputBytes);
    if (exitCode !== 0) this.#noteForeign(stderr, request);
    const wanted = exitCode === 0 ? undefined : keyDenied(stderr);
    if (wanted) this.#met.denied = [...(this.#met.denied ?? []), wanted];
    const { command, argv, workspace } = request;
    const ended = { command: argv?.join(' ') ?? command, stdout, stderr, failed: exitCode !== 0, workspace };
    const withheld = this.#options.toWithheld(outcome.withheld, ended);
    if (withheld) this.#met.withheld = withheld;
    if (exitCode === undefined) throw this.#killed(outcome);
    return { stdout, stderr, exitCode, durationMs, signal, report: captured };
  }

  #noteForeign(stderr: string, request: CommandRequest): void {
    const path = foreignPathIn(stderr, request);
    if (path !== undefined) this.#met.foreignPath = path;
  }

  /** Runs a program and captures its output; too much output is no failure. */
  async program(request: CommandRequest & { captureBytes: number }): Promise<ProgramResult> {
    const outcome = await this.#outcomeOf(request);
    const { exitCode, captured = Buffer.alloc(0), stderr, ended, tracked } = outcome;
    const cut = ended === 'output';
    if (exitCode === undefined && !cut) throw this.#killed(outcome);
    return { stdout: captured, stderr, exitCode, cut, trackedHidden: tracked };
  }

  async #outcomeOf(request: CommandRequest): Promise<CommandOutcome> {
    const { command: setup, powers } = this.#options;
    // Without bounds a command could use any amount.
    if (!setup || !request.bounds) throw new ToolError('SANDBOX_DENIED', 'this tier runs no commands');
    const outcome = await inPlace(() => runCommand(request, setup, powers), request.signal);
    this.#count(outcome, request.bounds);
    return outcome;
  }

  #count(outcome: CommandOutcome, { memoryMb }: CommandBounds): void {
    const { used, outputBytes, denied, refusedPorts, scratchFull, homeRemoved, gitConfigs } = outcome;
    const all = this.used;
    all.cpuMs += used.cpuMs;
    all.outputBytes += outputBytes;
    if (used.peakBytes !== undefined) all.peakBytes = Math.max(all.peakBytes ?? 0, used.peakBytes);
    const isNear = used.exceeded?.kind !== 'memory' && (used.peakBytes ?? 0) > NEAR * memoryMb * 1024 * 1024;
    if (isNear) this.#met.memoryNear = true;
    if (scratchFull) this.#met.scratchFull = true;
    if (homeRemoved.length > 0) this.#met.homeRemoved = [...(this.#met.homeRemoved ?? []), ...homeRemoved];
    this.tookOver(gitConfigs);
    if (denied.length > 0) this.#met.denied = [...(this.#met.denied ?? []), ...denied];
    if (refusedPorts.length > 0) this.#met.refusedPorts = [...(this.#met.refusedPorts ?? []), ...refusedPorts];
    if (used.processes !== undefined) all.processes = Math.max(all.processes ?? 0, used.processes);
  }

  /** Counts what was taken over of changes to configs of repositories. */
  tookOver(outcomes: readonly TakenOver[]): void {
    if (outcomes.length > 0) this.#met.gitConfigs = [...(this.#met.gitConfigs ?? []), ...outcomes];
  }

  #killed({ ended, used, outputBytes, stdout, stderr }: CommandOutcome): ToolError {
    const output = { stdout, stderr };
    if (ended === 'exceeded' && used.exceeded) {
      this.used.verdict = verdictOf(used.exceeded.kind);
      return overLimit(used.exceeded, output);
    }
    if (ended !== 'output') return new ToolError('CANCELLED', 'the command was ended', { details: output });
    const limit = this.#options.limits.commandOutputBytesMax;
    this.used.verdict = 'output';
    return new ToolError('OUTPUT_LIMIT', `the command wrote more than ${limit} bytes and was ended`, {
      suggestion: 'Redirect the output to a file in the workspace, or filter it.',
      details: { limit, used: outputBytes, enforcedBy: 'daemon', ...output },
    });
  }
}

/** Hidden files that git tracks, by name; a model pays for each with every command. */
const TRACKED_TOLD_MAX = 3;

/**
 * Whether git reports that it met the mount over a repository's config. In some cases, such as `git push -u`, git
 * then goes on and exits with 0. A command that prints these words itself only gets a needless warning.
 */
const couldNotConfigure = (stderr: string): boolean =>
  stderr.includes('could not write config file') && stderr.includes('Device or resource busy');

/** Whether a program reports EFBIG or SIGXFSZ; the command itself may go on after that, and exit with 0. */
const metFileLimit = (stderr: string): boolean => /File too large|File size limit exceeded/.test(stderr);

const OVER: Record<ExceededLimit['kind'], { code: Code; says: (limit: number) => string }> = {
  memory: { code: 'MEMORY_LIMIT', says: (limit) => `took more than ${limit} bytes of memory` },
  cpu: { code: 'CPU_LIMIT', says: (limit) => `took more than ${limit} ms of CPU time` },
  processes: { code: 'PROCESS_LIMIT', says: (limit) => `had more than ${limit} processes or threads` },
  file: { code: 'FILE_LIMIT', says: (limit) => `wrote a file of more than ${limit} bytes` },
  disk: { code: 'FILE_LIMIT', says: (limit) => `left less than ${limit} bytes free on a disk that it wrote to` },
  home: { code: 'FILE_LIMIT', says: (limit) => `left more than ${limit} bytes in its home` },
  'home-entries': { code: 'FILE_LIMIT', says: (limit) => `left more than ${limit} files and folders in its home` },
  preview: { code: 'FILE_LIMIT', says: (limit) => `wrote more than ${limit} bytes into its preview` },
  'preview-entries': {
    code: 'FILE_LIMIT',
    says: (limit) => `changed more than ${limit} files and folders in its preview`,
  },
};

/** The error of a command that exceeded a limit, with its output so far. */
function overLimit({ kind, ...details }: ExceededLimit, output: { stdout: string; stderr: string }): ToolError {
  const { code, says } = OVER[kind];
  return new ToolError(code, `the command ${says(details.limit)} and was ended`, {
    suggestion: 'Do less at once, or ask the person to raise the limit in the policy.',
    details: { ...details, ...output },
  });
}
