/** Checks commits before a session gets them, and makes its clone. */
import { copyFile, mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { RpcError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import type { ConfinedGit, GitRequest } from './confined-git.ts';
import { copyPacks, makeRepository } from './repository-files.ts';

/** Bytes of one line of `ls-tree`: mode, type, hash, size, and a path. */
const LINE_BYTES = 256;

/**
 * Whether a repository has a commit with all of its files. Throws RpcError INVALID_PARAMS if these are more than a session may have,
 * which a repository of a few kilobytes can hold.
 */
export async function hasCommit(git: ConfinedGit, gitDir: string, commit: string, limits: Limits): Promise<boolean> {
  const { fleetCheckoutFilesMax: filesMax, fleetCheckoutBytes: bytesMax } = limits;
  const request: GitRequest = {
    args: ['ls-tree', '-r', '-l', '-z', '--full-tree', `${commit}^{commit}`],
    folder: gitDir,
    env: { GIT_DIR: gitDir },
    fileBytes: limits.fleetMirrorBytes,
    outputBytes: filesMax * LINE_BYTES,
  };
  const result = await git.try(request);
  if (result.cut === 'time') throw new RpcError('INVALID_PARAMS', `${commit}: ${git.whyFailed(result, request)}`);
  if (result.cut === undefined && result.exitCode !== 0) return false;
  const { files, bytes } = sizeOf(result.stdout);
  if (result.cut === 'output' || files > filesMax)
    throw new RpcError('INVALID_PARAMS', `${commit} has more than the ${filesMax} files that a session may have`);
  if (bytes > bytesMax)
    throw new RpcError('INVALID_PARAMS', `the files of ${commit} have ${bytes} bytes; at most ${bytesMax} may be`);
  return true;
}

/** Counts the files and the bytes of a listing, whose lines are `mode type hash size<TAB>path`. */
function sizeOf(listing: Buffer): { files: number; bytes: number } {
  let [files, bytes] = [0, 0];
  for (let at = 0; at < listing.length; ) {
    const end = listing.indexOf(0, at);
    const tab = listing.indexOf(9, at);
    files += 1;
    bytes += Number(listing.toString('latin1', at, tab).split(' ').at(-1)) || 0;
    at = end < 0 ? listing.length : end + 1;
  }
  return { files, bytes };
}

/** Names a folder of a clone. */
export const cloneFiles = (folder: string) => ({
  about: join(folder, 'about.json'),
  /** What the session works in. */
  workspace: join(folder, 'workspace'),
  /** What git knew of the files before the session could change them. */
  index: join(folder, 'index'),
  staging: join(folder, 'staging'),
  upload: join(folder, 'upload'),
  unpacked: join(folder, 'unpacked'),
  changes: join(folder, 'changes'),
});

export interface CloneRequest {
  /** Absolute path of the clone's folder. */
  readonly folder: string;
  /** Absolute path of the git directory that has the commit. */
  readonly from: string;
  readonly commit: string;
  readonly branch: string;
  readonly origin?: string;
}

/** Makes the work tree of a clone in a folder that no session sees; gives that folder. Throws RpcError. */
export async function checkOut(git: ConfinedGit, request: CloneRequest, limits: Limits): Promise<string> {
  const { folder, from, commit, branch, origin } = request;
  const { index, staging } = cloneFiles(folder);
  await mkdir(staging, { mode: 0o700 });
  const gitDir = join(staging, '.git');
  await makeRepository({ gitDir, isBare: false, branch, commit, origin });
  await copyPacks(from, gitDir);
  await git.run('the commit could not be checked out', {
    args: ['read-tree', '--reset', '-u', commit],
    folder: staging,
    env: { GIT_DIR: gitDir, GIT_WORK_TREE: staging },
    fileBytes: limits.fleetCheckoutBytes,
  });
  await copyFile(join(gitDir, 'index'), index);
  return staging;
}
