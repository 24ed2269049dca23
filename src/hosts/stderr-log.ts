/** Copies the stderr of a confined process to the log, up to a bound, since a program in it may write without end. */
import type { Readable } from 'node:stream';
import type { Limits } from '../base/limits.ts';
import type { Powers } from '../base/powers.ts';

/** Characters kept of the newest output; reported if the process does not start. */
const KEPT_CHARS = 4096;

const ERROR = /^(?:\w*Error\b|Uncaught ).*:/;

export class StderrLog {
  /** The newest output. */
  text = '';
  #leftChars: number;

  /** `about` is logged with each message. */
  constructor(
    from: Readable | null,
    { log, about, message }: { log: Powers['log']; about: object; message: string },
    { hostStderrCharsMax }: Pick<Limits, 'hostStderrCharsMax'>,
  ) {
    this.#leftChars = hostStderrCharsMax;
    from?.on('data', (chunk) => {
      const text = `${chunk}`;
      this.text = (this.text + text).slice(-KEPT_CHARS);
      if (this.#leftChars <= 0) return;
      const stderr = text.slice(0, Math.min(this.#leftChars, KEPT_CHARS));
      this.#leftChars -= text.length;
      log.warn({ ...about, stderr, ...(this.#leftChars <= 0 && { cut: true }) }, message);
    });
  }

  /** The line that says why the process ended: the message of an error if Node printed one, else the last line. */
  get last(): string {
    const lines = this.text.trim().split('\n');
    return lines.findLast((it) => ERROR.test(it)) ?? (lines.at(-1) || 'it said nothing; is the machine busy?');
  }
}
