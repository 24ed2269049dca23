/**
 * Keeps the folder and the exported variables of a shell from one command to the next, though each command has a bash of
 * its own: a command that may change them tells them at the end of its output, behind a mark, and that part is not shown.
 */
import type { OutputEntry } from '../../client/client.ts';
import { exportable } from './exported.ts';

export interface ShellState {
  /** Absolute. */
  readonly folder: string;
  /** What the commands have exported. */
  readonly exported: Readonly<Record<string, string>>;
}

/**
 * The command with the part that tells the state; its exit code stays. What the sandbox itself has set is told, too, as
 * the environment in which this bash began.
 */
export const withReport = (command: string, mark: string): string => {
  const told = `printf '%s\\0' ${mark} "$PWD"; cat /proc/$$/environ; printf '%s\\0' ${mark}; env -0`;
  return `${command}\nringfence_exit=$?; ${told}; exit "$ringfence_exit"`;
};

/** The output before the mark, and what follows it. */
export class ReportedOutput {
  readonly #mark: Buffer;
  #held: Buffer = Buffer.alloc(0);
  #isBehind = false;

  constructor(mark: string) {
    this.#mark = Buffer.from(`${mark}\0`);
  }

  /** Passes on standard output up to the mark; holds back what may be the beginning of the mark. */
  async *shown(
    entries: AsyncGenerator<OutputEntry, string | undefined>,
  ): AsyncGenerator<OutputEntry, string | undefined> {
    let last: OutputEntry | undefined;
    for (;;) {
      const { done, value } = await entries.next();
      if (done) {
        if (last && !this.#isBehind && this.#held.length > 0) yield { ...last, data: this.#held };
        return value;
      }
      if (value.stream === 'stderr') {
        yield value;
        continue;
      }
      last = value;
      const data = this.#take(Buffer.from(value.data));
      if (data.length > 0) yield { ...value, data };
    }
  }

  #take(data: Buffer): Buffer {
    this.#held = Buffer.concat([this.#held, data]);
    if (this.#isBehind) return Buffer.alloc(0);
    const at = this.#held.indexOf(this.#mark);
    const keep = at < 0 ? this.#mark.length - 1 : this.#held.length - at;
    const cut = Math.max(0, this.#held.length - keep);
    const shown = this.#held.subarray(0, cut);
    this.#held = this.#held.subarray(cut);
    this.#isBehind = at >= 0;
    return shown;
  }

  /** The state behind the mark; undefined if the command ended before it told all of it. */
  state(): ShellState | undefined {
    const [, behind = '', after] = this.#held.toString().split(this.#mark.toString());
    const at = behind.indexOf('\0');
    // `env` ends the last variable as it ends the others.
    if (!this.#isBehind || at < 1 || !after?.endsWith('\0')) return undefined;
    const began = new Set(behind.slice(at + 1).split('\0'));
    const changed = after.split('\0').filter((it) => !began.has(it));
    const variables = Object.fromEntries(changed.map((it) => it.split(/=(.*)/s) as [string, string]));
    return { folder: behind.slice(0, at), exported: exportable(variables) };
  }
}
