/**
 * The repository that holds a path, as far as git may be told of it: git looks for none by itself, since it would follow
 * `core.worktree`, bare repositories among the files of another one, and what lies outside of the workspace.
 */
import { isAbsolute, join, normalize, relative } from 'node:path/posix';
import { ToolError } from '../../errors.ts';
import type { CheckedDirectory, ToolContext } from '../tool.ts';

export interface Repository {
  /** Of its work tree, relative to the workspace; '' where that is the workspace itself. */
  readonly root: string;
  /** Its own directory and the one that it shares with other work trees, relative to the workspace. */
  readonly gitDir: string;
  readonly commonDir: string;
  /** Whether its config may name programs of filters, here or in what it includes. */
  readonly filters: boolean;
  readonly includes: boolean;
}

/** The innermost one at or above `path`, which need not exist. Throws NOT_FOUND, UNSUPPORTED. */
export function findRepository(ctx: ToolContext, path: string): Repository {
  for (const root of foldersFrom(plain(path))) {
    using folder = openedOr(ctx, root);
    if (folder?.stat('.git')) return repositoryAt(ctx, root, folder);
  }
  throw notARepository(`\`${path}\` is in no git repository of this workspace`);
}

/** A path of the workspace as the repository calls it; '' for its root. */
export function pathIn({ root }: Repository, path: string): string {
  const inside = root === '' ? plain(path) : relative(root, plain(path));
  if (inside !== '..' && !inside.startsWith('../')) return inside;
  throw new ToolError('UNSUPPORTED', `\`${path}\` is not in the repository at \`${root}\``, {
    suggestion: 'Make one call for each repository.',
  });
}

/** The other way round. */
export const pathOf = ({ root }: Repository, path: string): string => (root === '' ? path : `${root}/${path}`);

/** The branch that HEAD names, born or not; undefined when it is detached. */
export function branchOf(ctx: ToolContext, { gitDir }: Repository): string | undefined {
  return /^ref: refs\/heads\/(.+)$/m.exec(textAt(ctx, `${gitDir}/HEAD`) ?? '')?.[1];
}

/** Whether a rebase stopped half way, during which HEAD is detached. */
export function isRebasing(ctx: ToolContext, { gitDir }: Repository): boolean {
  return ['rebase-merge', 'rebase-apply'].some((it) => {
    using directory = openedOr(ctx, `${gitDir}/${it}`);
    return directory !== undefined;
  });
}

export const notARepository = (message: string): ToolError =>
  new ToolError('NOT_FOUND', message, {
    suggestion: 'Name a path inside of a repository; `git init` makes one.',
    details: { reason: 'not-a-repository' },
  });

/** `a/b`, `a`, ''. */
function foldersFrom(path: string): string[] {
  const names = path === '' ? [] : path.split('/');
  return names.map((_, at) => names.slice(0, names.length - at).join('/')).concat('');
}

const plain = (path: string): string => {
  const normal = normalize(path).replace(/\/$/, '');
  return normal === '.' ? '' : normal;
};

function openedOr(ctx: ToolContext, folder: string): CheckedDirectory | undefined {
  try {
    return ctx.openDirectory(folder || '.');
  } catch (error) {
    // A file, or something that is there no more: what holds it may still be there.
    if (error instanceof ToolError && ['NOT_FOUND', 'UNSUPPORTED'].includes(error.code)) return undefined;
    throw error;
  }
}

function repositoryAt(ctx: ToolContext, root: string, folder: CheckedDirectory): Repository {
  const gitDir = gitDirOf(ctx, root, folder);
  const common = textAt(ctx, `${gitDir}/commondir`)?.trim();
  const commonDir = common === undefined ? gitDir : inWorkspace(ctx, gitDir, common);
  // Only there nobody but git and commands writes, so that the config that is looked at is the one that git reads.
  for (const it of [gitDir, commonDir]) if (!/(^|\/)\.git(\/|$)/.test(it)) throw outsideOf(root);
  assertPlain(ctx, commonDir);
  const config = [`${commonDir}/config`, `${gitDir}/config.worktree`].map((it) => textAt(ctx, it) ?? '').join('\n');
  return { root, gitDir, commonDir, filters: /filter/i.test(config), includes: /include/i.test(config) };
}

/** Where `.git` is, or what it points to when it is a file. */
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

/** A config that is a link could be written under another name. */
function assertPlain(ctx: ToolContext, commonDir: string): void {
  using directory = openedOr(ctx, commonDir);
  if (!directory) throw notARepository(`\`${commonDir}\`, which holds the repository, is not there`);
  const odd = directory.entries().find((it) => it.name === 'config' && it.type !== 'file');
  if (odd) throw new ToolError('UNSUPPORTED', `\`${commonDir}/config\` is not a regular file`);
}

const outsideOf = (root: string): ToolError =>
  notARepository(`the repository of \`${root || '.'}\` lies outside of the workspace, or in no \`.git\``);

/** The text of a small file; undefined where there is none. */
function textAt(ctx: ToolContext, path: string): string | undefined {
  try {
    using file = ctx.open(path);
    return file.bytes().toString('utf8');
  } catch (error) {
    if (error instanceof ToolError && error.code === 'NOT_FOUND') return undefined;
    throw error;
  }
}
