/** Answers in place of the processes of a daemon under test: policy, question, record and sandbox stay as they are. */
import type { DoubleAnswer, StartedProcess } from './messages.ts';

/** The answer of a process; it prints nothing and exits with 0 where nothing is said. */
export interface ProcessAnswer {
  readonly stdout?: string;
  readonly stderr?: string;
  readonly exitCode?: number;
}

/** A whole command line, a pattern of it, or a function that sees all that the process would have got. */
export type ProcessMatcher = string | RegExp | ((process: StartedProcess) => boolean);
export type ProcessScript = ProcessAnswer | ((process: StartedProcess) => ProcessAnswer | Promise<ProcessAnswer>);

/** A process that a test expects, and those that it answered. */
export interface ExpectedProcess {
  readonly calls: readonly StartedProcess[];
}

interface Expectation extends ExpectedProcess {
  readonly calls: StartedProcess[];
  readonly matcher: ProcessMatcher;
  readonly script: ProcessScript;
  readonly times: number;
}

/** The answers are part of a command line, whose arguments the kernel bounds. */
const OUTPUT_BYTES_MAX = 32 * 1024;

export class ScriptedProcesses {
  readonly #expected: Expectation[] = [];
  readonly #unexpected: StartedProcess[] = [];
  #failure: Error | undefined;

  /** From the first expectation on, no process of a command is run, and one that none expects fails its call. */
  expect(matcher: ProcessMatcher, script: ProcessScript, times: number): ExpectedProcess {
    if (!Number.isInteger(times) || times < 0) throw new RangeError(`a process comes 0 times or more, not ${times}`);
    const expectation = { calls: [], matcher, script, times };
    this.#expected.push(expectation);
    return expectation;
  }

  /** What the daemon does in place of a process; undefined: it runs it. */
  async answerTo(process: StartedProcess): Promise<DoubleAnswer> {
    if (this.#expected.length === 0) return {};
    const found = this.#expected.find((it) => it.calls.length < it.times && matches(it.matcher, process));
    if (!found) {
      this.#unexpected.push(process);
      return { refused: `the test expects no process \`${process.command.slice(0, 200)}\`` };
    }
    found.calls.push(process);
    try {
      const { script } = found;
      return { command: toCommand(typeof script === 'function' ? await script(process) : script) };
    } catch (error) {
      this.#failure ??= error as Error;
      return { refused: `the test's answer failed: ${(error as Error).message}` };
    }
  }

  /** Throws if an answer failed, a process came that none expected, or one came less often than expected. */
  assertMet(): void {
    if (this.#failure) throw this.#failure;
    const [first] = this.#unexpected;
    if (first) throw new Error(`${this.#unexpected.length} processes came unexpected, the first: ${first.command}`);
    const missing = this.#expected.filter((it) => it.calls.length < it.times);
    const told = missing.map((it) => `${String(it.matcher)} came ${it.calls.length} times of ${it.times}`);
    if (told.length > 0) throw new Error(`processes that the test expects did not come: ${told.join('; ')}`);
  }
}

function matches(matcher: ProcessMatcher, process: StartedProcess): boolean {
  if (typeof matcher === 'function') return matcher(process);
  if (typeof matcher === 'string') return matcher === process.command;
  return process.command.search(matcher) >= 0;
}

/** A command line that prints the answer and exits as it says. */
function toCommand({ stdout = '', stderr = '', exitCode = 0 }: ProcessAnswer): string {
  const bytes = Buffer.byteLength(stdout) + Buffer.byteLength(stderr);
  if (bytes > OUTPUT_BYTES_MAX)
    throw new RangeError(`a process prints at most ${OUTPUT_BYTES_MAX} bytes, not ${bytes}`);
  if (!Number.isInteger(exitCode) || exitCode < 0 || exitCode > 255)
    throw new RangeError(`a process exits with 0 to 255, not ${exitCode}`);
  const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
  return `printf %s ${quoted(stdout)}; printf %s ${quoted(stderr)} >&2; exit ${exitCode}`;
}
