/**
 * Runs git on one repository in a sandbox of its own. No program that config, attributes or hooks name is run:
 * settings with fixed names are switched off below, and filters, whose names the repository chooses, one by one.
 */
import { ToolError } from '../../base/errors.ts';
import { isBelow } from '../../base/paths.ts';
import type { ProgramResult, ToolContext } from '../tool.ts';
import { CLEAN_ENVIRONMENT, CLEAN_OPTIONS } from './clean-settings.ts';
import { notARepository, plain, type Repository } from './repository.ts';

/** The most filters of one repository; each takes four settings. */
const FILTERS_MAX = 64;
const STDERR_CHARS_SHOWN = 400;

export interface GitRun extends ProgramResult {
  /** Git's messages, in English, with names from the repository. */
  readonly stderr: string;
}

export interface GitOptions {
  readonly stdin?: string;
  readonly env?: Readonly<Record<string, string>>;
}

export class Git {
  readonly repository: Repository;
  readonly #ctx: ToolContext;
  #disarmed: Record<string, string> | undefined;
  #trackedHidden: readonly string[] = [];

  constructor(ctx: ToolContext, repository: Repository) {
    this.#ctx = ctx;
    this.repository = repository;
  }

  /** Runs git to its end, with any exit code. Throws UNSUPPORTED, and the code of the limit that ended it. */
  async try(args: readonly string[], options: GitOptions = {}): Promise<GitRun> {
    this.#disarmed ??= await this.#disarm();
    return this.#run(args, { ...options, env: { ...this.#disarmed, ...options.env } });
  }

  /** Runs git, which must succeed. Throws the error that `failure` makes of its message. */
  async run(args: readonly string[], options: GitOptions = {}): Promise<GitRun> {
    const result = await this.try(args, options);
    if (result.cut || result.exitCode === 0) return result;
    throw failure(result.stderr);
  }

  /** All settings of the repository's config; later ones override. Throws UNSUPPORTED for names that are not UTF-8. */
  async config(): Promise<[key: string, value: string][]> {
    const { stdout, exitCode, cut, stderr } = await this.#run(['config', '-z', '--list'], {});
    if (exitCode !== 0 || cut) throw failure(stderr);
    let text = '';
    try {
      text = new TextDecoder('utf8', { fatal: true }).decode(stdout);
    } catch {
      throw new ToolError('UNSUPPORTED', 'the config of this repository is not UTF-8');
    }
    const entries = text.split('\0').slice(0, -1);
    return entries.map((it): [string, string] => {
      const end = it.indexOf('\n');
      return end < 0 ? [it, ''] : [it.slice(0, end), it.slice(end + 1)];
    });
  }

  /** Files below paths of the workspace that git tracks and could not see, so that nobody can tell whether they changed. */
  hiddenBelow(paths: readonly string[]): string[] {
    const { root } = this.repository;
    return this.#trackedHidden.filter((it) => isBelow(root, it) && paths.some((path) => isBelow(plain(path), it)));
  }

  async #run(args: readonly string[], { stdin, env }: GitOptions): Promise<GitRun> {
    const ran = await this.#ctx.program({
      program: 'git',
      args: [...CLEAN_OPTIONS, ...args],
      cwd: this.repository.root || '.',
      env: { ...CLEAN_ENVIRONMENT, GIT_DIR: '.git', GIT_WORK_TREE: '.', ...env },
      stdin,
      offline: true,
      bytesMax: this.#ctx.limits.gitOutputBytes,
    });
    this.#trackedHidden = ran.trackedHidden;
    return ran;
  }

  /** Settings that make every filter run no program and never fail. */
  async #disarm(): Promise<Record<string, string>> {
    const { filters, includes } = this.repository;
    if (!filters && !includes) return {};
    const names = new Set((await this.config()).flatMap(([key]) => /^filter\.(.*)\.[^.]*$/s.exec(key)?.[1] ?? []));
    if (names.size > FILTERS_MAX)
      throw new ToolError(
        'UNSUPPORTED',
        `this repository has ${names.size} filters; at most ${FILTERS_MAX} are supported`,
      );
    const settings = [...names].flatMap((name) => [
      ...['clean', 'smudge', 'process'].map((it) => [`filter.${name}.${it}`, ''] as const),
      [`filter.${name}.required`, 'false'] as const,
    ]);
    const numbered = settings.flatMap(([key, value], at) => [
      [`GIT_CONFIG_KEY_${at}`, key],
      [`GIT_CONFIG_VALUE_${at}`, value],
    ]);
    return { GIT_CONFIG_COUNT: `${settings.length}`, ...Object.fromEntries(numbered) };
  }
}

/** Turns git's message into a tool's error. */
export function failure(stderr: string): ToolError {
  const said = stderr.trim().split('\n').at(-1)?.slice(0, STDERR_CHARS_SHOWN) ?? '';
  if (/not a git repository/.test(stderr)) return notARepository('git finds no repository there');
  if (/does not have any commits yet|'HEAD(\^\{commit\})?'/.test(stderr)) return noCommits();
  if (
    /unknown revision|bad revision|ambiguous argument|Needed a single revision|bad object|invalid object/.test(stderr)
  )
    return new ToolError('NOT_FOUND', 'there is no such commit in this repository', {
      suggestion: 'Look for it with git_log or git_branch.',
      details: { reason: 'unknown-revision', git: said },
    });
  const [, missing] = /pathspec ':\(top,literal\)(.*)' did not match any file/s.exec(stderr) ?? [];
  if (missing !== undefined)
    return new ToolError('NOT_FOUND', `\`${missing}\` is neither a file in this repository nor known to git`, {
      suggestion: 'List the files with git_status.',
      details: { reason: 'no-such-file' },
    });
  if (/index\.lock/.test(stderr))
    return new ToolError('CONFLICT', 'another git process works in this repository, or left its lock behind', {
      suggestion: 'Try again; if it still fails, ask the person to check `.git/index.lock`.',
      details: { reason: 'locked' },
    });
  if (/cannot hash /.test(stderr))
    return new ToolError('ACCESS_DENIED', `git could not read a tracked file: ${said}`, {
      suggestion: 'Name a path that can be read.',
      details: { reason: 'unreadable' },
    });
  return new ToolError('UNSUPPORTED', `git could not do this: ${said}`, { details: { reason: 'git-failed' } });
}

const noCommits = (): ToolError =>
  new ToolError('NOT_FOUND', 'this repository has no commits yet', { details: { reason: 'no-commits' } });
