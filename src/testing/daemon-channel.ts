/** The process of a daemon under test, as its test sees it: its start, its clock, its log and its end. */
import type { ChildProcess } from 'node:child_process';
import { type Powers, settlesWithin } from '../base/powers.ts';
import type { Confinement, FromDaemon, StartedProcess, ToDaemon } from './messages.ts';
import { ScriptedProcesses } from './processes.ts';

/** Longest time in ms for a daemon to end in order. */
const END_MS_MAX = 10_000;

export class DaemonChannel {
  readonly #child: ChildProcess;
  readonly #powers: Powers;
  readonly #ended: Promise<void>;
  readonly #started = Promise.withResolvers<Confinement>();
  /** Requests to move the clock that were not answered yet. */
  readonly #moves: PromiseWithResolvers<number>[] = [];
  readonly processes = new ScriptedProcesses();
  #log = '';

  constructor(child: ChildProcess, powers: Powers) {
    this.#child = child;
    this.#powers = powers;
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#log += text;
    });
    child.on('message', (message: FromDaemon) => this.#hear(message));
    this.#ended = new Promise((resolve) => {
      child.once('exit', (code, signal) => {
        this.#fail(`the daemon has ended (${signal ?? code})`);
        resolve();
      });
      child.once('error', (error) => {
        this.#fail(error.message);
        resolve();
      });
    });
    this.#started.promise.catch(() => {}); // Whoever waits for the start is told.
  }

  /** Resolves when clients are served; rejects with the reason if the daemon does not start. */
  get started(): Promise<Confinement> {
    return this.#started.promise;
  }

  log(): string {
    return this.#log;
  }

  /** Moves the daemon's clock, and gives its time then. */
  async advance(ms: number): Promise<number> {
    if (!Number.isFinite(ms) || ms < 0) throw new RangeError(`a clock moves by 0 ms or more, not by ${ms}`);
    if (!this.#child.connected) throw new Error('the daemon has ended, and its clock with it');
    const move = Promise.withResolvers<number>();
    this.#moves.push(move);
    this.#child.send({ advanceMs: ms } satisfies ToDaemon);
    return move.promise;
  }

  /** Ends the process, and resolves when it is gone. */
  async end(): Promise<void> {
    this.#child.kill('SIGTERM');
    if (!(await settlesWithin(this.#ended, END_MS_MAX, this.#powers))) this.#child.kill('SIGKILL');
    await this.#ended;
  }

  #hear(message: FromDaemon): void {
    if (message.kind === 'process') void this.#answer(message.id, message.process);
    else if (message.kind === 'advanced') this.#moves.shift()?.resolve(message.nowMs);
    else if (message.confinement) this.#started.resolve(message.confinement);
    else this.#started.reject(new Error(`the daemon did not start: ${message.error ?? this.#log}`));
  }

  async #answer(answered: number, process: StartedProcess): Promise<void> {
    const answer = await this.processes.answerTo(process);
    if (this.#child.connected) this.#child.send({ answered, answer } satisfies ToDaemon);
  }

  #fail(reason: string): void {
    this.#started.reject(new Error(`${reason}; its log: ${this.#log}`));
    for (const it of this.#moves.splice(0)) it.reject(new Error(reason));
  }
}
