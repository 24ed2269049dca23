/** Runs the linter or the formatter once, over a copy of sources in the host's own scratch space. */

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { ToolError } from '../../src/base/errors.ts';
import type { Limits } from '../../src/base/limits.ts';
import type { Powers } from '../../src/base/powers.ts';
import { parseJson } from '../../src/base/text/json.ts';
import { entering } from '../../src/sandbox/launch.ts';
import type { SourceText } from '../../src/tools/source/checkers.ts';

const require = createRequire(import.meta.url);

/** The folder of a package of ours, and its version. */
export function packageOf(name: string): { folder: string; version: string } {
  const folder = dirname(dirname(require.resolve(name)));
  const { version } = parseJson(readFileSync(join(folder, 'package.json'), 'utf8')) as { version: string };
  return { folder, version };
}

export interface CheckerParts {
  readonly limits: Limits;
  readonly powers: Powers;
  readonly signal: AbortSignal;
}

/** Copies of sources below a folder of their own, and beside it the configuration. */
export class SourceCopies implements Disposable {
  readonly folder: string;
  readonly config: string;
  readonly #root: string;

  constructor(sources: readonly SourceText[], config: object) {
    this.#root = mkdtempSync(join(tmpdir(), 'ringfence-check-'));
    this.folder = join(this.#root, 'src');
    this.config = join(this.#root, 'config.json');
    writeFileSync(this.config, JSON.stringify(config));
    writeFileSync(join(this.#root, 'ignore'), '');
    mkdirSync(this.folder);
    for (const { path, text } of sources) {
      const at = this.#at(path);
      mkdirSync(dirname(at), { recursive: true });
      writeFileSync(at, text);
    }
  }

  /** An empty file of patterns, so that no other one is looked for. */
  get ignore(): string {
    return join(this.#root, 'ignore');
  }

  textOf(path: string): string {
    return readFileSync(this.#at(path), 'utf8');
  }

  [Symbol.dispose](): void {
    rmSync(this.#root, { recursive: true, force: true });
  }

  #at(path: string): string {
    const at = join(this.folder, path);
    if (at.startsWith(`${this.folder}/`)) return at;
    throw new ToolError('ACCESS_DENIED', `\`${path}\` is not below the workspace root`);
  }
}

export interface CheckerRun {
  /** A script of a package of ours. */
  readonly script: string;
  readonly args: readonly string[];
  readonly cwd: string;
  /** Standard input; empty if absent. */
  readonly input?: string;
}

export interface CheckerResult {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number | null;
}

/** Runs Node on a script to its end. Throws OUTPUT_LIMIT, HOST_CRASHED, and the signal's reason. */
export function runChecker({ script, args, cwd, input = '' }: CheckerRun, parts: CheckerParts): Promise<CheckerResult> {
  const { limits, powers, signal } = parts;
  const { checkerMemoryBytes: memoryBytes, checkerOutputBytes: limit } = limits;
  signal.throwIfAborted();
  const [program, ...before] = entering({ dataBytes: memoryBytes });
  // No PATH: it has no programs to start.
  const child = powers.spawn(program, [...before, process.execPath, script, ...args], {
    stdio: 'pipe',
    cwd,
    env: { NO_COLOR: '1' },
  });
  const { promise, resolve, reject } = Promise.withResolvers<CheckerResult>();
  const pieces = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
  let bytes = 0;
  const end = (error: unknown) => {
    child.kill('SIGKILL');
    reject(error);
  };
  const abort = () => end(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  for (const name of ['stdout', 'stderr'] as const)
    child[name]?.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= limit) pieces[name].push(chunk);
      else end(tooMuch(limit));
    });
  child.stdin?.on('error', () => {}).end(input);
  child.once('error', (error) => end(crashed(error.message)));
  child.once('close', (exitCode, by) => {
    signal.removeEventListener('abort', abort);
    const [stdout, stderr] = [pieces.stdout, pieces.stderr].map((it) => Buffer.concat(it).toString('utf8'));
    if (by === null) resolve({ stdout: stdout as string, stderr: stderr as string, exitCode });
    else reject(crashed(`${by} ended it`));
  });
  return promise;
}

const tooMuch = (limit: number) =>
  new ToolError('OUTPUT_LIMIT', `the checker wrote more than ${limit} bytes`, {
    suggestion: 'Name fewer files.',
    details: { limit, enforcedBy: 'host' },
  });

const crashed = (why: string) =>
  new ToolError('HOST_CRASHED', `the checker ended during this call: ${why}`, {
    suggestion: 'Name fewer files, to find the one that it can not take.',
  });
