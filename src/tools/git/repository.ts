/**
 * Finds the repository of a path without git: git itself would follow `core.worktree`, bare repositories among the
 * files of another one, and directories outside the workspace.
 */
import { isAbsolute, join, normalize, relative } from 'node:path/posix';
import { ToolError } from '../../base/errors.ts';
import type { CheckedDirectory, ToolContext } from '../tool.ts';

export interface Repository {
  /** Root of the work tree, relative to the workspace; '' for the workspace itself. */
  readonly root: string;
  /** The repository's directory and the one that it shares with other work trees, relative to the workspace. */
  readonly gitDir: string;
  readonly commonDir: string;
  /** Whether the config, or a file that it includes, may name programs of filters. */
  readonly filters: boolean;
  readonly includes: boolean;
}

/** The innermost repository at or above `path`, which need not exist. Throws NOT_FOUND, UNSUPPORTED. */
export function findRepository(ctx: ToolContext, path: string): Repository {
  for (const root of foldersFrom(plain(path))) {
    using folder = openedOr(ctx, root);
    if (folder?.stat('.git')) return repositoryAt(ctx, root, folder);
  }
  throw notARepository(`\`${path}\` is in no git repository of this workspace`);
}

/** Turns a path of the workspace into one of the repository; '' for its root. Throws UNSUPPORTED for a path outside. */
export function pathIn({ root }: Repository, path: string): string {
  const inside = root === '' ? plain(path) : relative(root, plain(path));
  if (inside !== '..' && !inside.startsWith('../')) return inside;
  throw new ToolError('UNSUPPORTED', `\`${path}\` is not in the repository at \`${root}\``, {
    suggestion: 'Make one call for each repository.',
  });
}

/** Turns a path of the repository into one of the workspace. */
export const pathOf = ({ root }: Repository, path: string): string => (root === '' ? path : `${root}/${path}`);

/** The branch that HEAD names, with or without commits; undefined if HEAD is detached. */
export function branchOf(ctx: ToolContext, { gitDir }: Repository): string | undefined {
  return /^ref: refs\/heads\/(.+)$/m.exec(textAt(ctx, `${gitDir}/HEAD`) ?? '')?.[1];
}

/** Whether a rebase is in progress; HEAD is detached meanwhile. */
export function isRebasing(ctx: ToolContext, { gitDir }: Repository): boolean {
  return ['rebase-merge', 'rebase-apply'].some((it) => {
    using directory = openedOr(ctx, `${gitDir}/${it}`);
    return directory !== undefined;
  });
}

export const notARepository = (
  message: string,
  suggestion = 'Name a path inside a repository; `git init` creates one.',
): ToolError =>
  new ToolError('NOT_FOUND', message, {
    suggestion,
    details: { reason: 'not-a-repository' },
  });

/** The folder and its parents: `a/b`, `a`, ''. */
function foldersFrom(path: string): string[] {
  const names = path === '' ? [] : path.split('/');
  return names.map((_, at) => names.slice(0, names.length - at).join('/')).concat('');
}

/** A path of the workspace in one form, without dots and slashes that say nothing; '' for its root. */
export const plain = (path: string): string => {
  const normal = normalize(path).replace(/\/$/, '');
  return normal === '.' ? '' : normal;
};

function openedOr(ctx: ToolContext, folder: string): CheckedDirectory | undefined {
  try {
    return ctx.openDirectory(folder || '.');
  } catch (error) {
    // A file, or gone: a parent may still exist.
    if (error instanceof ToolError && ['NOT_FOUND', 'UNSUPPORTED'].includes(error.code)) return undefined;
    throw error;
  }
}

function repositoryAt(ctx: ToolContext, root: string, folder: CheckedDirectory): Repository {
  const gitDir = gitDirOf(ctx, root, folder);
  const common = textAt(ctx, `${gitDir}/commondir`)?.trim();
  const commonDir = common === undefined ? gitDir : inWorkspace(ctx, gitDir, common);
  // Only git and commands write below `.git`, so that the config checked here is the one that git reads.
  for (const it of [gitDir, commonDir]) if (!/(^|\/)\.git(\/|$)/.test(it)) throw outsideOf(root);
  assertPlain(ctx, commonDir);
  const config = [`${commonDir}/config`, `${gitDir}/config.worktree`].map((it) => textAt(ctx, it) ?? '').join('\n');
  return { root, gitDir, commonDir, filters: /filter/i.test(config), includes: /include/i.test(config) };
}

/** The directory `.git`, or the directory that a file `.git` points to. */
function gitDirOf(ctx: ToolContext, root: string, folder: CheckedDirectory): string {
  const own = join(root, '.git');
  using directory = folder.directory('.git');
  if (directory) return own;
  const pointer = /^gitdir: (.+?)\s*$/.exec(textAt(ctx, own) ?? '')?.[1];
  if (pointer === undefined) throw notARepository(`\`${own}\` points to no repository`);
  return inWorkspace(ctx, root, pointer);
}

function inWorkspace(ctx: ToolContext, from: string, target: string): string {
  const path = isAbsolute(target) ? relative(ctx.workspace, target) : join(from, target);
  if (path === '..' || path.startsWith('../')) throw outsideOf(from);
  return plain(path);
}

/** Refuses a config that is a link: it could be written under another name. */
function assertPlain(ctx: ToolContext, commonDir: string): void {
  using directory = openedOr(ctx, commonDir);
  if (!directory) throw notARepository(`\`${commonDir}\`, which holds the repository, is not there`);
  const odd = directory.entries().find((it) => it.name === 'config' && it.type !== 'file');
  if (odd) throw new ToolError('UNSUPPORTED', `\`${commonDir}/config\` is not a regular file`);
}

const outsideOf = (root: string): ToolError =>
  notARepository(
    `the repository of \`${root || '.'}\` lies outside the workspace or not in a \`.git\` folder`,
    'Run git as a command: if that fails, the result says which folder to ask for.',
  );

/** The text of a small file; undefined if there is none. */
function textAt(ctx: ToolContext, path: string): string | undefined {
  try {
    using file = ctx.open(path);
    return file.bytes().toString('utf8');
  } catch (error) {
    if (error instanceof ToolError && error.code === 'NOT_FOUND') return undefined;
    throw error;
  }
}
