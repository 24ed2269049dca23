/** Runs the programs of programs.ts, and turns what went wrong in them into errors. */
import { ToolError } from '../../base/errors.ts';
import { jsonOr } from '../../base/text/json.ts';
import { isRecord } from '../../base/text/values.ts';
import { sourcesOf } from '../terminal/program-packages.ts';
import type { CommandResult, ToolContext } from '../tool.ts';
import { APPLY } from './programs.ts';
import type { BoundFiles, ProjectFiles } from './steps.ts';

/** The proxy is on loopback, as a registry may be: no address is asked past it. */
const ENVIRONMENT = {
  NO_PROXY: '',
  no_proxy: '',
  NODE_NO_WARNINGS: '1',
  GIT_ALLOW_PROTOCOL: 'none',
  // A manager that corepack gives has neither its version nor its origin from the project.
  COREPACK_ENV_FILE: '0',
  COREPACK_ENABLE_PROJECT_SPEC: '0',
};

/** A program that is run in a project; `{tmp}` stands for a folder that only this run has, `{proxy}` for the URL of the proxy. */
export interface Step {
  readonly words: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

/** What a step left. */
export interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export const STDERR_CHARS = 4_000;

/** Runs one of the programs; gives its report. Throws PROGRAM_MISSING, CODE_ERROR. */
export async function reported(
  program: string,
  cwd: string,
  ctx: ToolContext,
  request: object,
  { interpreter = 'node -e', isOffline = false }: { interpreter?: string; isOffline?: boolean } = {},
): Promise<Record<string, unknown>> {
  const command = ctx.command({
    command: `exec ${interpreter} "$1"`,
    shell: 'bash',
    args: [program],
    cwd,
    env: ENVIRONMENT,
    offline: isOffline,
    stdin: JSON.stringify(request),
    report: '-',
  });
  const result = await ctx.run(command);
  const value = reportOf(result);
  if (value) return value;
  const { exitCode, stderr } = result;
  if (exitCode === 127) throw programMissing(interpreter.split(' ')[0] as string);
  throw new ToolError('CODE_ERROR', `the program that runs the package manager ended with ${exitCode}`, {
    details: { stderr: stderr.slice(-STDERR_CHARS) },
  });
}

function reportOf({ report }: CommandResult): Record<string, unknown> | undefined {
  const value = jsonOr(report?.toString('utf8') ?? '', undefined);
  return isRecord(value) ? value : undefined;
}

/** The error for a manager that commands don't find, with what brings it. */
export function programMissing(program: string): ToolError {
  const suggestions = sourcesOf(program);
  const [best] = suggestions;
  return new ToolError('PROGRAM_MISSING', `commands find no program \`${program}\``, {
    suggestion: best
      ? `Ask the person to run \`${best.run}\`.`
      : `Ask the person to install the package that has \`${program}\`.`,
    details: { program, suggestions },
  });
}

/** A report of steps: all of them, and the files that were read after them. Throws PROGRAM_MISSING. */
export function stepsOf(report: Record<string, unknown>): {
  steps: Ran[];
  files: Readonly<Record<string, string | null>>;
} {
  const steps = (Array.isArray(report.steps) ? report.steps : []).filter(isRecord);
  const missing = steps.find((it) => typeof it.missing === 'string');
  if (missing) throw programMissing(String(missing.missing).slice(0, 64));
  const files = Object.entries(isRecord(report.files) ? report.files : {});
  return {
    steps: steps.map(({ code, stdout, stderr }) => ({
      code: Number(code),
      stdout: String(stdout),
      stderr: String(stderr),
    })),
    files: Object.fromEntries(files.map(([name, text]) => [name, typeof text === 'string' ? text : null])),
  };
}

export interface Planning {
  readonly steps: readonly Step[];
  /** Files that are reported afterwards. */
  readonly read: readonly string[];
  /** What the program takes beside it. */
  readonly more?: Readonly<Record<string, unknown>>;
}

/** Runs steps in a copy of a project; gives the rest of the report, too. */
export async function plannedBy(
  program: string,
  { texts }: Pick<ProjectFiles, 'texts'>,
  { steps, read, more = {} }: Planning,
  ctx: ToolContext,
) {
  const files = Object.fromEntries(Object.entries(texts).filter(([, text]) => text !== null));
  const report = await reported(program, '.', ctx, { ...more, files, steps, read });
  return { ...stepsOf(report), report };
}

export interface Installation {
  readonly step: Step;
  /** Folders that it writes beside the files of the plan. */
  readonly folders: readonly string[];
  readonly manifest: string;
  readonly lockfile: string;
}

/** Installs a plan. Throws CONFLICT if the project has changed since, CODE_ERROR with the words of the manager. */
export async function appliedBy(
  folder: string,
  { files, before }: BoundFiles,
  { step, folders, manifest, lockfile }: Installation,
  ctx: ToolContext,
): Promise<void> {
  const report = await reported(APPLY, folder, ctx, { files, before, folders, step });
  assertApplied(report, { words: step.words, manifest, lockfile });
}

/** Throws for a report that says that the plan was not installed. */
export function assertApplied(
  { moved, linked, code, stdout, stderr, changed, missing }: Record<string, unknown>,
  { words, manifest, lockfile }: Pick<Step, 'words'> & Pick<Installation, 'manifest' | 'lockfile'>,
): void {
  if (Array.isArray(moved))
    throw new ToolError('CONFLICT', `changed since the plan was made: ${moved.map(String).join(', ')}`, {
      suggestion: 'Call again to plan from what is there now.',
    });
  if (Array.isArray(linked)) throw new ToolError('UNSUPPORTED', `${linked.map(String).join(', ')} is a symbolic link`);
  if (typeof missing === 'string') throw programMissing(missing.slice(0, 64));
  if (code !== 0) {
    const name = words.slice(0, 2).join(' ');
    throw new ToolError('CODE_ERROR', `${name} failed; ${manifest} and ${lockfile} are as before`, {
      details: {
        stderr: [stdout, stderr]
          .filter((it) => typeof it === 'string')
          .join('\n')
          .slice(-STDERR_CHARS),
      },
    });
  }
  if (Array.isArray(changed) && changed.length > 0)
    throw new ToolError('CONFLICT', `changed while ${words[0]} ran: ${changed.map(String).join(', ')}`);
}
