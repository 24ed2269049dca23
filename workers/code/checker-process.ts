/** Runs the linter or the formatter once, over a copy of sources in the host's own scratch space. */

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { ToolError } from '../../src/base/errors.ts';
import type { Limits } from '../../src/base/limits.ts';
import type { Powers } from '../../src/base/powers.ts';
import { parseJson } from '../../src/base/text/json.ts';
import type { SourceText } from '../../src/tools/source/checkers.ts';
import { type BoundedResult, runBounded } from '../symbols/bounded-program.ts';

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

/** Runs Node on a script to its end. Throws OUTPUT_LIMIT, HOST_CRASHED, and the signal's reason. */
export async function runChecker({ script, args, ...run }: CheckerRun, parts: CheckerParts): Promise<BoundedResult> {
  const { checkerMemoryBytes: memoryBytes, checkerOutputBytes: bytesMax } = parts.limits;
  const program = { program: process.execPath, args: [script, ...args], env: { NO_COLOR: '1' }, memoryBytes, bytesMax };
  const ended = await runBounded({ ...run, ...program }, parts, { tooMuch, crashed });
  if (ended.killedBy !== null) throw crashed(`${ended.killedBy} ended it`);
  return ended;
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
