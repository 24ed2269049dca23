/** Asks TypeScript 6 in a child process of its own, which is kept while it is used. */
import { createRequire } from 'node:module';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ToolError } from '../src/errors.ts';
import type { Limits } from '../src/limits.ts';
import type { Powers, Timer } from '../src/powers.ts';
import { ErrorResponse, LanguageProcess } from './symbols/language-process.ts';
import type { LocallyRefactored, LocalRefactoring } from './symbols/local-refactoring.ts';
import { TaskQueue } from './task-queue.ts';

export class TypeScript6Child implements Disposable {
  readonly #limits: Limits;
  readonly #powers: Powers;
  readonly #from: string;
  readonly #turns = new TaskQueue();
  #process: LanguageProcess | undefined;
  #idle: Timer | undefined;

  /** `from`: the module from whose place the package is looked for. */
  constructor(limits: Limits, powers: Powers, from = import.meta.url) {
    this.#limits = limits;
    this.#powers = powers;
    this.#from = from;
  }

  /** Throws UNSUPPORTED if the package is not installed, MEMORY_LIMIT, HOST_CRASHED, and the signal's reason. */
  refactor(request: LocalRefactoring, signal: AbortSignal): Promise<LocallyRefactored> {
    return this.#turns.take(signal, async () => {
      this.#assertInstalled(request.operation);
      this.#idle?.cancel();
      try {
        return await this.#started().request<LocallyRefactored>('refactor', request, signal);
      } catch (error) {
        if (!(error instanceof ErrorResponse)) throw error;
        throw new ToolError(
          'HOST_CRASHED',
          `TypeScript 6 failed on \`${request.path}\`: ${error.message.slice(0, 200)}`,
          {
            suggestion: 'Edit the file with file_edit, then check it with code_type_check.',
          },
        );
      } finally {
        this.#idle = this.#powers.after(this.#limits.symbolsIdleMs, () => this[Symbol.dispose]());
      }
    });
  }

  [Symbol.dispose](): void {
    this.#idle?.cancel();
    this.#process?.kill();
    this.#process = undefined;
  }

  #started(): LanguageProcess {
    if (this.#process?.alive) return this.#process;
    const { typescript6MemoryBytes: memoryBytes, symbolAnswerBytes: answerBytesMax } = this.#limits;
    const entry = fileURLToPath(new URL(`./typescript6-process${extname(import.meta.url)}`, import.meta.url));
    this.#process = new LanguageProcess({
      name: 'TypeScript 6',
      program: process.execPath,
      env: {},
      args: ['--disable-warning=ExperimentalWarning', `--max-old-space-size=${HEAP_MIB}`, entry],
      memoryBytes,
      answerBytesMax,
      powers: this.#powers,
    });
    return this.#process;
  }

  #assertInstalled(operation: string): void {
    try {
      createRequire(this.#from).resolve('typescript6');
    } catch {
      // MODULE_NOT_FOUND
      throw new ToolError('UNSUPPORTED', `${operation} needs TypeScript 6, which is not installed`, {
        suggestion:
          'Install Ringfence again without --omit=optional, or edit the file with file_edit and check it with code_type_check.',
      });
    }
  }
}

const HEAP_MIB = 896;
