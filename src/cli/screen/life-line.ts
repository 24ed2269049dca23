/** One line on a terminal's standard error that says what a call does, once that takes more than a second. */
import { styleText } from 'node:util';
import { systemPowers, type Timer } from '../../base/powers.ts';
import { showLine } from '../../base/text/shown-text.ts';
import { since } from './table.ts';

const EVERY_MS = 1000;
/** Width of a terminal that does not say how wide it is. */
const COLUMNS = 80;
const CLEAR = '\r\x1b[K';

export class LifeLine implements Disposable {
  readonly #powers = systemPowers();
  readonly #startedMs = this.#powers.now();
  readonly #timer: Timer | undefined;
  #text = 'starting';
  #isShown = false;
  #isHeld = false;
  /** Whether what the call printed last ended its line. */
  #isAtStart = true;

  constructor() {
    if (process.stderr.isTTY) this.#timer = this.#powers.every(EVERY_MS, () => this.#show());
  }

  /** What the call does now. */
  set text(text: string) {
    this.#text = text;
  }

  /** Takes the line away for output of the call, which may end anywhere in a line. */
  makeWay(output: string): void {
    this.#clear();
    if (output !== '') this.#isAtStart = output.endsWith('\n');
  }

  /** Shows nothing while a person is asked at this terminal. */
  async holdWhile<T>(work: Promise<T>): Promise<T> {
    this.#clear();
    this.#isHeld = true;
    try {
      return await work;
    } finally {
      this.#isHeld = false;
    }
  }

  #show(): void {
    if (this.#isHeld || !this.#isAtStart) return;
    const text = `  ${showLine(this.#text)}   ${since(this.#powers.now() - this.#startedMs)}`;
    const line = text.slice(0, (process.stderr.columns || COLUMNS) - 1);
    process.stderr.write(`${CLEAR}${styleText('dim', line, { stream: process.stderr })}`);
    this.#isShown = true;
  }

  #clear(): void {
    if (this.#isShown) process.stderr.write(CLEAR);
    this.#isShown = false;
  }

  [Symbol.dispose](): void {
    this.#timer?.cancel();
    this.#clear();
    if (this.#timer && !this.#isAtStart) process.stderr.write('\n');
  }
}
