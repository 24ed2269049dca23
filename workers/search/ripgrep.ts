/**
 * Runs ripgrep as a child of the host, in the host's sandbox, so that it sees what the host sees. It ends with its
 * call, with the thread that started it, and as soon as its reader has enough; its memory, threads and output are
 * bounded.
 */
import { availableParallelism } from 'node:os';
import type { Readable } from 'node:stream';
import { ToolError } from '../../src/base/errors.ts';
import type { Limits } from '../../src/base/limits.ts';
import { onAbort, type Powers } from '../../src/base/powers.ts';
import { entering } from '../../src/sandbox/launch.ts';

export interface RipgrepRun {
  /** Arguments; each text from the caller follows an option. */
  readonly args: readonly string[];
  /** Descriptor of the working directory: the directory that was opened, even if its name now means another. */
  readonly directory?: number;
  /** Descriptor of the only file to search; ripgrep reads it as `INHERITED_FILE`. */
  readonly file?: number;
  readonly signal: AbortSignal;
  /** Receives the output; returning false means enough, and kills ripgrep. */
  readonly onData: (chunk: Buffer) => boolean;
  /** Is told how many folders have paths that are too long for the kernel to open; without it they are passed over. */
  readonly onTooDeep?: ((folders: number) => void) | undefined;
}

/** Path of the file in `RipgrepRun.file`, as ripgrep sees it. */
export const INHERITED_FILE = '/proc/self/fd/3';

/** Overrides environment, config files and repositories: no pager, no preprocessor, no links followed, no PCRE. */
const ALWAYS = [
  ...['--no-config', '--no-follow', '--no-ignore-global', '--no-require-git', '--no-mmap'],
  ...['--color=never', '--engine=default', '--regex-size-limit=20M', '--dfa-size-limit=64M'],
];

const STDERR_CHARS_KEPT = 4096;
const NAME_TOO_LONG = '(os error 36)\n';

/** Counts ripgrep's messages on paths that are too long; it writes each in several pieces. */
class NamesTooLong {
  #rest = '';

  /** Number of messages that end in this chunk. */
  in(chunk: Buffer): number {
    const pieces = `${this.#rest}${chunk.toString('latin1')}`.split(NAME_TOO_LONG);
    this.#rest = pieces.at(-1)?.slice(1 - NAME_TOO_LONG.length) ?? '';
    return pieces.length - 1;
  }
}

export class Ripgrep {
  readonly #limits: Limits;
  readonly #powers: Powers;
  #prefix: Promise<[string, ...string[]]> | undefined;
  #running = 0;
  readonly #waiters: (() => void)[] = [];

  constructor(limits: Limits, powers: Powers) {
    this.#limits = limits;
    this.#powers = powers;
  }

  /**
   * Runs ripgrep to its end, or until its reader has enough. Throws INPUT_INVALID for an invalid pattern,
   * MEMORY_LIMIT, UNSUPPORTED if it is not installed, and the signal's reason.
   */
  async run(run: RipgrepRun): Promise<void> {
    const [program, ...before] = await this.#launch();
    await this.#enter(run.signal);
    try {
      run.signal.throwIfAborted();
      const quiet = run.onTooDeep ? [] : ['--no-messages'];
      await this.#spawn(program, [...before, ...ALWAYS, ...quiet, ...run.args], run);
    } finally {
      this.#running -= 1;
      this.#waiters.shift()?.();
    }
  }

  /** Throws UNSUPPORTED if ripgrep is not installed or does not run. */
  async check(signal: AbortSignal): Promise<void> {
    let said = '';
    let why = 'it says nothing';
    const onData = (chunk: Buffer) => {
      said += chunk;
      return true;
    };
    try {
      await this.run({ args: ['--version'], signal, onData });
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof ToolError && error.code === 'UNSUPPORTED') throw error;
      why = (error as Error).message;
    }
    if (said.startsWith('ripgrep ')) return;
    throw new ToolError('UNSUPPORTED', `the search program ripgrep does not run: ${why}`, {
      suggestion: 'Install Ringfence again.',
    });
  }

  /** A failure is not cached: ripgrep may be installed meanwhile. */
  #launch(): Promise<[string, ...string[]]> {
    this.#prefix ??= launchOf(this.#limits).catch((error: unknown) => {
      this.#prefix = undefined;
      throw error;
    });
    return this.#prefix;
  }

  /** Waits for a slot: one ripgrep uses every core, so more at once only use more memory. */
  async #enter(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    while (this.#running >= this.#limits.searchesMax) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#waiters.push(resolve);
      signal.addEventListener('abort', () => resolve(), { once: true });
      await promise;
      if (!signal.aborted) continue;
      // The slot may have come at the same moment; pass it on.
      const at = this.#waiters.indexOf(resolve);
      if (at >= 0) this.#waiters.splice(at, 1);
      else this.#waiters.shift()?.();
      throw signal.reason;
    }
    this.#running += 1;
  }

  async #spawn(
    program: string,
    args: readonly string[],
    { directory, file, signal, onData, onTooDeep }: RipgrepRun,
  ): Promise<void> {
    const child = this.#powers.spawn(program, args, {
      // Without stdin, ripgrep can't search that by mistake.
      stdio: ['ignore', 'pipe', 'pipe', ...(file === undefined ? [] : [file])],
      cwd: directory === undefined ? '/' : `/proc/self/fd/${directory}`,
      env: {},
    });
    let stderr = '';
    const tooLong = new NamesTooLong();
    let enough = false;
    let failure: { readonly error: unknown } | undefined;
    const kill = () => {
      child.kill('SIGKILL');
      child.stdout?.destroy();
    };
    using _ = onAbort(signal, kill);
    (child.stdout as Readable)
      .on('error', () => {})
      .on('data', (chunk: Buffer) => {
        if (enough) return;
        try {
          enough = !onData(chunk);
        } catch (error) {
          // An exception here would end the thread with all its jobs.
          enough = true;
          failure = { error };
        }
        if (enough) kill();
      });
    (child.stderr as Readable)
      .on('error', () => {})
      .on('data', (chunk: Buffer) => {
        // Names of files are in these messages, so they only count.
        if (onTooDeep) onTooDeep(tooLong.in(chunk));
        else stderr = `${stderr}${chunk.toString()}`.slice(0, STDERR_CHARS_KEPT);
      });
    const { promise, resolve, reject } = Promise.withResolvers<{ code: number | null; killedBy: string | null }>();
    child.once('error', reject);
    child.once('close', (code, killedBy) => resolve({ code, killedBy }));
    const { code, killedBy } = await promise;
    signal.throwIfAborted();
    if (failure) throw failure.error;
    if (enough || code === 0 || code === 1) return;
    if (killedBy !== null || /memory allocation/.test(stderr)) throw outOfMemory(this.#limits);
    // Exit code 2 also means that a file could not be read; ripgrep is told not to report that.
    if (stderr !== '') throw complaintOf(stderr);
  }
}

/** Program and arguments before ripgrep's own. */
const launchOf = async ({ searchMemoryBytes, searchThreadsMax }: Limits): Promise<[string, ...string[]]> => [
  ...entering({ addressBytes: searchMemoryBytes }),
  await installed(),
  `--threads=${Math.min(availableParallelism(), searchThreadsMax)}`,
];

async function installed(): Promise<string> {
  try {
    return (await import('@vscode/ripgrep')).rgPath;
  } catch {
    // Throws if the package for this platform is not installed.
    throw new ToolError('UNSUPPORTED', 'the search program ripgrep is not installed for this platform', {
      suggestion: 'Install Ringfence again without --omit=optional.',
    });
  }
}

const outOfMemory = ({ searchMemoryBytes }: Limits): ToolError =>
  new ToolError('MEMORY_LIMIT', `the search needed more than ${searchMemoryBytes} bytes of memory`, {
    suggestion: 'Search fewer files or a simpler pattern, or exclude generated files with very long lines.',
    details: { limit: searchMemoryBytes, enforcedBy: 'rlimit' },
  });

/** Turns ripgrep's error into one that says what to change. ripgrep shows patterns within `(?:` and `)`. */
function complaintOf(stderr: string): ToolError {
  const text = stderr.replace(/^rg: /, '').trim();
  const regex = /^regex parse error:\n {4}\(\?:(.*)\)\n {4}( *)\^+\n?error: (.*)/s.exec(text);
  if (regex) {
    const [, , before = '', what = ''] = regex;
    const said = what.split('\n')[0] as string;
    const position = before.length >= 3 ? ` at character ${before.length - 2}` : '';
    return new ToolError('INPUT_INVALID', `pattern is not a regular expression: ${said}${position}`, {
      suggestion: /look-a|backreference/.test(said)
        ? "The syntax is that of Rust's regex: no look-around, no backreferences."
        : 'Escape special characters, or search with literal: true.',
    });
  }
  const first = text.split('\n').find((it) => it.trim() !== '') ?? text;
  const last = /^error: (.*)$/m.exec(text)?.[1];
  return new ToolError('INPUT_INVALID', `ripgrep rejects this search: ${last ?? first}`, {
    suggestion: 'Patterns match within one line; for plain text, search with literal: true.',
  });
}
