/** Progress notifications of a request: often enough to show that it is running, never a flood. */
import { stripVTControlCharacters } from 'node:util';
import type { Limits } from '../../base/limits.ts';
import type { Powers, Timer } from '../../base/powers.ts';

const MESSAGE_CHARS = 200;

export class ProgressReporter implements Disposable {
  readonly #send: (progress: number, message: string) => void;
  readonly #limits: Limits;
  readonly #powers: Powers;
  readonly #startedAtMs: number;
  #message = 'under way';
  #last = 0;
  #timer: Timer;
  #isSoon = false;

  /** `send` receives the elapsed seconds, which only increase. */
  constructor(send: (progress: number, message: string) => void, limits: Limits, powers: Powers) {
    this.#send = send;
    this.#limits = limits;
    this.#powers = powers;
    this.#startedAtMs = powers.monotonicMs();
    this.#timer = this.#reportLater(limits.mcpProgressMs);
  }

  /** Reports the last line of an output; of many in quick succession only the last. */
  output(bytes: Uint8Array): void {
    // The last bytes are enough, even if they begin within a character.
    const text = Buffer.from(bytes.subarray(-4 * MESSAGE_CHARS)).toString();
    const line = stripVTControlCharacters(text)
      .trimEnd()
      .split(/[\r\n]/)
      .at(-1);
    if (line) this.say(line.slice(0, MESSAGE_CHARS));
  }

  say(message: string): void {
    this.#message = message;
    if (this.#isSoon) return;
    this.#isSoon = true;
    this.#timer.cancel();
    this.#timer = this.#reportLater(this.#limits.mcpOutputProgressMs);
  }

  [Symbol.dispose](): void {
    this.#timer.cancel();
  }

  #reportLater(delayMs: number): Timer {
    return this.#powers.after(delayMs, () => {
      this.#isSoon = false;
      const seconds = Math.round(this.#powers.monotonicMs() - this.#startedAtMs) / 1000;
      this.#last = Math.max(seconds, this.#last + 0.001);
      this.#timer = this.#reportLater(this.#limits.mcpProgressMs);
      this.#send(this.#last, this.#message);
    });
  }
}
