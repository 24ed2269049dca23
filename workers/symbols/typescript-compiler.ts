/** Runs our own TypeScript compiler over a project. It writes nothing, loads no plugin, and may be killed at any time. */
import { resolve } from 'node:path';
import { ToolError } from '../../src/base/errors.ts';
import type { Limits } from '../../src/base/limits.ts';
import type { Powers } from '../../src/base/powers.ts';
import { TaskQueue } from '../task-queue.ts';
import { runBounded } from './bounded-program.ts';
import type { FileDiagnostic } from './type-problems.ts';
import { typescriptProgram } from './typescript-server.ts';

export interface ProjectCheck {
  /** Absolute path. */
  readonly workspace: string;
  /** The project file, relative to the workspace root. */
  readonly path: string;
  readonly strict: boolean;
}

export interface ProjectDiagnostics {
  readonly diagnostics: FileDiagnostic[];
  /** The files of the workspace that were checked, without those of packages. */
  readonly files: string[];
}

/** Share of its memory at which it begins to collect garbage thoroughly. */
const COLLECT_AT = 0.75;

export class TypeScriptCompiler {
  readonly #limits: Limits;
  readonly #powers: Powers;
  readonly #turns = new TaskQueue();

  constructor(limits: Limits, powers: Powers) {
    this.#limits = limits;
    this.#powers = powers;
  }

  /** Throws MEMORY_LIMIT, OUTPUT_LIMIT, HOST_CRASHED, or the signal's reason. */
  check(project: ProjectCheck, signal: AbortSignal): Promise<ProjectDiagnostics> {
    return this.#turns.take(signal, async () => read(await this.#run(project, signal), project));
  }

  /** The compiler's output. */
  async #run({ workspace, path, strict }: ProjectCheck, signal: AbortSignal): Promise<string> {
    const { typeCheckMemoryBytes: memoryBytes, symbolAnswerBytes: bytesMax, searchThreadsMax } = this.#limits;
    const args = ['-p', resolve(workspace, path), ...FIXED, ...(strict ? ['--strict'] : [])];
    const env = { GOMEMLIMIT: `${Math.floor(memoryBytes * COLLECT_AT)}`, GOMAXPROCS: `${searchThreadsMax}` };
    const run = { program: typescriptProgram(), args, cwd: workspace, env, memoryBytes, bytesMax };
    const parts = { powers: this.#powers, signal };
    const { stdout, stderr, exitCode } = await runBounded(run, parts, { tooMuch, crashed });
    // 0: no errors, 1 and 2: errors; 2 also where Go's runtime ends it, which says so.
    if (exitCode !== null && exitCode <= 2 && !CRASH.test(stderr)) return stdout;
    throw NO_MEMORY.test(stderr) ? noMemory(memoryBytes) : crashed(stderr);
  }
}

const CRASH = /^(fatal error|panic|SIG\w+): /m;
/** A fault that is no panic is one of Go's memory manager, which got none. */
const NO_MEMORY = /out of memory|cannot allocate|^SIGSEGV/im;

/** `composite` and a build file would demand to be written. */
const FIXED = [
  ...['--noEmit', '--pretty', 'false', '--incremental', 'false', '--composite', 'false'],
  ...['--tsBuildInfoFile', 'null', '--listFiles'],
];

/** Lines such as `src/a.ts(1,14): error TS2322: …`, or `error TS18003: …` without a file; lines after it are indented. */
const DIAGNOSTIC = /^(?:(.+)\((\d+),(\d+)\): )?error TS(\d+): (.*)$/;

function read(output: string, { workspace, path: project }: ProjectCheck): ProjectDiagnostics {
  const diagnostics: FileDiagnostic[] = [];
  const files: string[] = [];
  for (const line of output.split('\n')) {
    const [found, path = project, row = '1', column = '1', code = '', message = ''] = DIAGNOSTIC.exec(line) ?? [];
    const last = diagnostics.at(-1);
    if (found !== undefined) {
      const start = { line: Number(row) - 1, character: Number(column) - 1 };
      diagnostics.push({ path, range: { start, end: start }, code: Number(code), message });
    } else if (line.startsWith(' ') && last)
      diagnostics.splice(-1, 1, { ...last, message: `${last.message}\n${line}` });
    else if (line.startsWith(`${workspace}/`) && !line.includes('/node_modules/'))
      files.push(line.slice(workspace.length + 1));
  }
  return { diagnostics, files };
}

const tooMuch = (limit: number) =>
  new ToolError('OUTPUT_LIMIT', `the compiler printed more than ${limit} bytes`, {
    suggestion: 'Check the files that you changed, by files.',
    details: { limit, enforcedBy: 'host' },
  });

const noMemory = (limit: number) =>
  new ToolError('MEMORY_LIMIT', `the compiler needed more than ${limit} bytes of memory`, {
    suggestion: 'Check the files that you changed, by files, or a smaller project.',
    details: { limit, enforcedBy: 'rlimit' },
  });

const crashed = (why: string) =>
  new ToolError('HOST_CRASHED', `the compiler ended without a result: ${why.slice(0, 200).toWellFormed()}`, {
    suggestion: 'Try once more; if it ends again, check the files that you changed, by files.',
  });
