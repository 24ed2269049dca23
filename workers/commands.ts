/** The commands of one job, and what they used. */
import type { Denial } from '../src/call.ts';
import { type Code, ToolError } from '../src/errors.ts';
import type { JobUsage } from '../src/hosts/job.ts';
import type { Limits } from '../src/limits.ts';
import type { Powers } from '../src/powers.ts';
import { type CommandOutcome, type CommandRequest, type CommandSetup, runCommand } from '../src/sandbox/command.ts';
import type { MetOften } from '../src/sandbox/path-evidence.ts';
import type { Exceeded } from '../src/sandbox/watchdog.ts';
import type { CommandResult, ProgramResult } from '../src/tools/tool.ts';

export interface CommandsOptions {
  /** Absent in hosts that run no commands. */
  readonly command?: CommandSetup;
  readonly limits: Limits;
  readonly powers: Powers;
  /** What a command met, as its caller is told. */
  toDenial(met: MetOften): Denial;
  /** Told of the bytes of an output that was cut. */
  truncated(bytesTotal: number): void;
}

export class Commands {
  readonly used: Pick<JobUsage, 'cpuMs' | 'outputBytes' | 'peakBytes' | 'processes' | 'verdict' | 'denied'> = {
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

  /** Runs one to its end. Throws SANDBOX_DENIED where none may run, the code of the limit that ended it, CANCELLED. */
  async run(request: CommandRequest): Promise<CommandResult> {
    const outcome = await this.#outcomeOf(request);
    const { exitCode, signal, stdout, stderr, durationMs, outputBytes } = outcome;
    if (outcome.truncated) this.#options.truncated(outputBytes);
    if (exitCode === undefined) throw this.#killed(outcome);
    return { stdout, stderr, exitCode, ...(signal !== undefined && { signal }), durationMs };
  }

  /** The same for a program whose output is captured; too much of it is no failure. */
  async program(request: CommandRequest & { captureBytes: number }): Promise<ProgramResult> {
    const outcome = await this.#outcomeOf(request);
    const { exitCode, captured = Buffer.alloc(0), stderr, ended } = outcome;
    const cut = ended === 'output';
    if (exitCode === undefined && !cut) throw this.#killed(outcome);
    return { stdout: captured, stderr, exitCode, cut };
  }

  async #outcomeOf(request: CommandRequest): Promise<CommandOutcome> {
    const { command: setup, powers } = this.#options;
    // Without bounds there would be no end to what it takes.
    if (!setup || !request.bounds) throw new ToolError('SANDBOX_DENIED', 'this tier runs no commands');
    if (setup.paths && !request.readOnly) await setup.paths.ready();
    const outcome = await runCommand(request, setup, powers);
    const met = outcome.met.map((it) => this.#options.toDenial(it));
    this.#count({ ...outcome, denied: [...outcome.denied, ...met] });
    return outcome;
  }

  #count({ used, outputBytes, denied }: CommandOutcome): void {
    const all = this.used;
    all.cpuMs += used.cpuMs;
    all.outputBytes += outputBytes;
    if (used.peakBytes !== undefined) all.peakBytes = Math.max(all.peakBytes ?? 0, used.peakBytes);
    if (denied.length > 0) all.denied = [...(all.denied ?? []), ...denied];
    if (used.processes !== undefined) all.processes = Math.max(all.processes ?? 0, used.processes);
  }

  #killed({ ended, used, outputBytes, stdout, stderr }: CommandOutcome): ToolError {
    const output = { stdout, stderr };
    if (ended === 'exceeded' && used.exceeded) {
      this.used.verdict = used.exceeded.kind;
      return overLimit(used.exceeded, output);
    }
    if (ended !== 'output') return new ToolError('CANCELLED', 'the command was ended', { details: output });
    const limit = this.#options.limits.commandOutputBytesMax;
    this.used.verdict = 'output';
    return new ToolError('OUTPUT_LIMIT', `the command wrote more than ${limit} bytes and was ended`, {
      suggestion: 'Send the output to a file of the workspace, or filter it.',
      details: { limit, used: outputBytes, enforcedBy: 'daemon', ...output },
    });
  }
}

const OVER: Record<Exceeded['kind'], { code: Code; says: (limit: number) => string }> = {
  memory: { code: 'MEMORY_LIMIT', says: (limit) => `took more than ${limit} bytes of memory` },
  cpu: { code: 'CPU_LIMIT', says: (limit) => `took more than ${limit} ms of CPU time` },
  processes: { code: 'PROCESS_LIMIT', says: (limit) => `had more than ${limit} processes or threads` },
  file: { code: 'FILE_LIMIT', says: (limit) => `wrote a file of more than ${limit} bytes` },
};

/** The end of a command that used more than it may, with its output so far. */
function overLimit({ kind, ...details }: Exceeded, output: { stdout: string; stderr: string }): ToolError {
  const { code, says } = OVER[kind];
  return new ToolError(code, `the command ${says(details.limit)} and was ended`, {
    suggestion: 'Do less at once, or have the policy allow it more.',
    details: { ...details, ...output },
  });
}
