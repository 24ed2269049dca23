import type { ChildProcess } from 'node:child_process';
import type { Readable } from 'node:stream';
import { firstChildOf } from '../proc.ts';

/** What bwrap says of its command: the pid of its init, then how it ended; nothing when it never began. */
export class Status {
  /** Settles when bwrap has nothing more to say. */
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

  /** Calls `listener` once: now, or when the init is known. */
  onInit(listener: (init: number) => void): void {
    if (this.#listeners) this.#listeners.push(listener);
    else listener(this.init as number);
  }

  /** The command itself, as this process sees it; undefined when there is none. */
  get main(): number | undefined {
    const init = this.init;
    return init === undefined || this.exitCode !== undefined ? undefined : firstChildOf(init);
  }

  get exitCode(): number | undefined {
    return this.#number('exit-code');
  }

  /**
   * Kills the init, and with it the whole pid namespace, then bwrap. While bwrap has not said which it is, waits for that:
   * an init whose bwrap dies before it asked to die with it would go on alone.
   */
  kill(child: ChildProcess): void {
    this.#kill = () => {
      try {
        process.kill(this.init as number, 'SIGKILL');
      } catch {
        // ESRCH: it ended by itself.
      }
      child.kill('SIGKILL');
    };
    if (this.init !== undefined && child.exitCode === null && child.signalCode === null) this.#kill();
  }

  /** Asks the command to end; false when there is none yet, or none any more. */
  ask(): boolean {
    const { main } = this;
    if (main === undefined) return false;
    try {
      return process.kill(main, 'SIGTERM');
    } catch {
      return false; // ESRCH: it ended by itself.
    }
  }

  /** As this process sees it; undefined when bwrap has not said it yet. */
  get init(): number | undefined {
    return this.#number('child-pid');
  }

  #number(key: string): number | undefined {
    const digits = new RegExp(`"${key}": (\\d+)`).exec(this.#text)?.[1];
    return digits === undefined ? undefined : Number(digits);
  }
}
