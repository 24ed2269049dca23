/** The client under test: a program that does what it is told on standard input, a line of JSON each. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { jsonOr } from '../src/base/text/json.ts';
import { Departure, expectThat, within } from './played-server.ts';

/** Longest standard error that is kept, in characters. */
const STDERR_CHARS_MAX = 2000;
/** Longest part of a wrong line that is shown, in characters. */
const LINE_CHARS_SHOWN = 200;

/** What the program says of a call, by the name that it was given, or of connecting, by the name `connect`. */
export interface Outcome {
  readonly name: string;
  /** The ToolResult, its bytes as `{"$bytes": base64}`. */
  readonly result?: Record<string, unknown>;
  readonly connected?: true;
  /** Why there is no result; `code` is that of a JSON-RPC error. */
  readonly failed?: { readonly message: string; readonly code?: number };
}

export class ClientProgram implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #outcomes = new Map<string, Outcome>();
  readonly #exit: Promise<unknown>;
  readonly #stepMs: number;
  readonly #lost = Promise.withResolvers<never>();
  #stderr = '';
  #mayEnd = false;
  #wake: (() => void) | undefined;

  /** Starts the program. It may take `stepMs` for each step that is waited for. */
  constructor([program = '', ...words]: readonly string[], env: NodeJS.ProcessEnv, stepMs: number) {
    this.#stepMs = stepMs;
    this.#child = spawn(program, words, { env, stdio: ['pipe', 'pipe', 'pipe'], detached: true });
    this.#child.stdin?.on('error', () => {}); // A program that has ended is seen by its exit.
    this.#child.stderr?.on('data', (text: Buffer) => {
      this.#stderr = (this.#stderr + text.toString()).slice(-STDERR_CHARS_MAX);
    });
    this.#lost.promise.catch(() => {}); // Seen by whoever plays the case.
    this.#exit = once(this.#child, 'exit').catch((error: Error) => this.#fail(error.message));
    // Standard error is whole by then.
    this.#child.once('close', () => this.#mayEnd || this.#fail(`the program ended with ${this.#ending()}`));
    const lines = createInterface({ input: this.#child.stdout as NodeJS.ReadableStream });
    lines.on('line', (line) => this.#take(line));
  }

  /** Rejects with Departure when the program ends before it should, or says what it must not. */
  get lost(): Promise<never> {
    return this.#lost.promise;
  }

  connect(settings: { readonly resumeMs?: number } = {}): void {
    this.#tell({ do: 'connect', ...settings });
  }

  call(name: string, input: unknown = {}, tool = 'file_read'): void {
    this.#tell({ do: 'call', name, tool, input });
  }

  cancel(name: string): void {
    this.#tell({ do: 'cancel', name });
  }

  /** Waits for what became of the call. */
  async outcome(name: string): Promise<Outcome> {
    const come = async () => {
      while (!this.#outcomes.has(name))
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      return this.#outcomes.get(name) as Outcome;
    };
    return await within(come(), this.#stepMs, `the program said nothing of "${name}"`);
  }

  /** Waits for the result of the call. */
  async result(name: string): Promise<Record<string, unknown>> {
    const { result, failed } = await this.outcome(name);
    expectThat(result !== undefined, `"${name}" has no result but failed: ${failed?.message ?? 'without a message'}`);
    return result;
  }

  /** Waits until the call has failed, and has no result. */
  async failure(name: string): Promise<{ message: string; code?: number }> {
    const { failed } = await this.outcome(name);
    expectThat(failed !== undefined, `"${name}" should have failed, but has a result`);
    return failed;
  }

  /** Tells the program to close its client and end. */
  async close(): Promise<void> {
    this.#mayEnd = true;
    this.#tell({ do: 'close' });
    await within(this.#exit, this.#stepMs, 'the program did not end after "close"');
    expectThat(this.#child.exitCode === 0, `after "close" the program ended with ${this.#ending()}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#mayEnd = true;
    const { pid, exitCode, signalCode } = this.#child;
    // The program leads a process group, which ends with it.
    if (pid !== undefined && exitCode === null && signalCode === null) process.kill(-pid, 'SIGKILL');
    await this.#exit;
  }

  #ending(): string {
    const { exitCode, signalCode } = this.#child;
    return `${signalCode ?? exitCode}${this.#stderr === '' ? '' : `: ${this.#stderr}`}`;
  }

  #tell(command: Record<string, unknown>): void {
    this.#child.stdin?.write(`${JSON.stringify(command)}\n`);
  }

  #take(line: string): void {
    const outcome = jsonOr(line, null) as Partial<Outcome> | null;
    if (typeof outcome?.name !== 'string')
      return this.#fail(
        `the program printed a line that is no JSON object with a name: ${line.slice(0, LINE_CHARS_SHOWN)}`,
      );
    if (this.#outcomes.has(outcome.name)) return this.#fail(`the program told twice what became of "${outcome.name}"`);
    this.#outcomes.set(outcome.name, outcome as Outcome);
    this.#wake?.();
  }

  #fail(problem: string): void {
    this.#lost.reject(new Departure(problem));
  }
}
