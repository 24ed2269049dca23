/** A git bundle that a client uploads piece by piece as the workspace of its session. */
import { constants } from 'node:fs';
import { open, readdir, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { RpcError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import type { Params } from '../../wire/protocol/messages.ts';
import { checkOut, cloneFiles, hasCommit } from './checkout.ts';
import type { Clone } from './clones.ts';
import type { ConfinedGit, GitRequest } from './confined-git.ts';
import { makeRepository } from './repository-files.ts';

export interface BundleUploadOptions {
  readonly clone: Clone;
  readonly git: ConfinedGit;
  readonly limits: Limits;
}

export class BundleUpload {
  readonly #options: BundleUploadOptions;
  readonly #files: ReturnType<typeof cloneFiles>;
  #bytes = 0;

  constructor(options: BundleUploadOptions) {
    this.#options = options;
    this.#files = cloneFiles(options.clone.folder);
  }

  /** Adds a piece, which must follow the last one; gives the bytes so far. Throws RpcError INVALID_PARAMS. */
  async add({ offset, data: given }: Params<'workspaces.upload'>): Promise<{ bytes: number }> {
    const { fleetBundleBytes } = this.#options.limits;
    const data = typeof given === 'string' ? Buffer.from(given, 'base64') : given;
    this.#assertOpen();
    if (offset !== this.#bytes)
      throw new RpcError('INVALID_PARAMS', `the next piece begins at ${this.#bytes}, not at ${offset}`);
    if (offset + data.length > fleetBundleBytes)
      throw new RpcError(
        'INVALID_PARAMS',
        `a bundle has at most ${fleetBundleBytes} bytes, not ${offset + data.length}`,
      );
    await using file = await open(this.#files.upload, constants.O_WRONLY | constants.O_CREAT, 0o600);
    await file.write(data, 0, data.length, offset);
    this.#bytes += data.length;
    return { bytes: this.#bytes };
  }

  /** Checks the bundle, and fills the workspace with one of its commits. Throws RpcError INVALID_PARAMS. */
  async unpack(commit: string): Promise<void> {
    const { clone, git, limits } = this.#options;
    const { unpacked, upload, staging, workspace } = this.#files;
    this.#assertOpen();
    if (this.#bytes === 0) throw new RpcError('INVALID_PARAMS', 'no bundle was uploaded: workspaces.upload');
    for (const it of [unpacked, staging]) await rm(it, { recursive: true, force: true });
    await makeRepository({ gitDir: unpacked, isBare: true });
    const own = { folder: unpacked, env: { GIT_DIR: unpacked }, fileBytes: limits.fleetMirrorBytes } as const;
    const quiet = ['--quiet', '--no-tags', '--no-write-fetch-head', '--no-auto-maintenance'];
    const fetch: GitRequest = {
      ...own,
      args: ['fetch', ...quiet, '--', upload, '+refs/*:refs/bundle/*'],
      reads: [upload],
      network: { protocol: 'file', layer: [] },
    };
    await git.run("the bundle can't be used", fetch);
    // Fetches from a server check each object; older gits don't do that with a bundle.
    await git.run('the bundle is damaged', { ...own, args: ['fsck', '--full', '--no-dangling', '--no-progress'] });
    if (!(await hasCommit(git, unpacked, commit, limits)))
      throw new RpcError('INVALID_PARAMS', `the bundle has no commit ${commit}, or not all of its files`);
    const { branch } = clone.about;
    const made = await checkOut(git, { folder: clone.folder, from: unpacked, commit, branch }, limits);
    await this.#moveIn(made, workspace);
    for (const it of [unpacked, upload]) await rm(it, { recursive: true, force: true });
  }

  /** Moves files into the workspace, in which the session may have begun to work. */
  async #moveIn(made: string, workspace: string): Promise<void> {
    const present = await readdir(workspace);
    if (present.length > 0)
      throw new RpcError('INVALID_PARAMS', `the workspace has files already: ${present[0]?.slice(0, 128)}`);
    for (const name of await readdir(made)) await rename(join(made, name), join(workspace, name));
    await rm(made, { recursive: true, force: true });
  }

  #assertOpen(): void {
    const { base, url } = this.#options.clone.about;
    if (url !== undefined || base !== undefined)
      throw new RpcError('INVALID_PARAMS', 'this workspace has its files; open a session with the workspace `bundle:`');
  }
}
