import type { ChildProcess } from 'node:child_process';
import type { Readable } from 'node:stream';
import { signalQuietly } from '../../base/quiet/signals.ts';
import { firstChildOf } from '../proc.ts';

/** What bwrap reports about its command: the pid of its init, then how it ended; nothing if it never began. */
export class Status {
  /** Settles when bwrap has closed its status pipe. */
  readonly ended: Promise<void>;
  #text = '';
  #listeners: ((init: number) => void)[] | undefined = [];
  #kill: (() => void) | undefined;

  constructor(stream: Readable) {
    this.ended = new Promise((resolve) => stream.once('close', () => resolve()));
    stream
      .on('error', () => {})
      .on('data', (chunk) => {
        this.#text += chunk;
        const init = this.init;
        if (init === undefined) return;
        for (const it of this.#listeners ?? []) it(init);
        this.#listeners = undefined;
        this.#kill?.();
      });
  }

  /** Calls `listener` once: now, or once the init is known. */
  onInit(listener: (init: number) => void): void {
    if (this.#listeners) this.#listeners.push(listener);
    else listener(this.init as number);
  }

  /** Pid of the command itself, in our pid namespace; undefined if there is none. */
  get main(): number | undefined {
    const init = this.init;
    return init === undefined || this.exitCode !== undefined ? undefined : firstChildOf(init);
  }

  get exitCode(): number | undefined {
    return this.#number('exit-code');
  }

  /**
   * Kills the init, and with it the whole pid namespace, then bwrap. Waits until bwrap has reported the init:
   * an init whose bwrap dies before PR_SET_PDEATHSIG is set would go on alone.
   */
  kill(child: ChildProcess): void {
    this.#kill = () => {
      signalQuietly(this.init as number, 'SIGKILL');
      child.kill('SIGKILL');
    };
    if (this.init !== undefined && child.exitCode === null && child.signalCode === null) this.#kill();
  }

  /** Sends SIGTERM to the command; false if it has not started or has already ended. */
  ask(): boolean {
    return this.main !== undefined && signalQuietly(this.main, 'SIGTERM');
  }

  /** Pid of the init in our pid namespace; undefined until bwrap has reported it. */
  get init(): number | undefined {
    return this.#number('child-pid');
  }

  #number(key: string): number | undefined {
    const digits = new RegExp(`"${key}": (\\d+)`).exec(this.#text)?.[1];
    return digits === undefined ? undefined : Number(digits);
  }
}
