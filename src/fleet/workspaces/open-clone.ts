/** The clone of one open session: its changes come back from it, and it is kept or removed when the session ends. */
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { RpcError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import type { CollectedChanges, PlacedWorkspace } from '../../gateway/connections/placed-workspaces.ts';
import { Changes, type Snapshot } from './changes.ts';
import { cloneFiles } from './checkout.ts';
import type { Clone, Clones } from './clones.ts';
import type { ConfinedGit } from './confined-git.ts';
import { type FleetSettings, isBranchOf, type Origin } from './settings.ts';
import { BundleUpload } from './upload.ts';

export interface OpenCloneOptions {
  readonly clone: Clone;
  /** The name of this node. */
  readonly node: string;
  readonly clones: Clones;
  readonly git: ConfinedGit;
  readonly settings: FleetSettings;
  /** Folders that sessions may work in. */
  readonly lent: Set<string>;
  readonly limits: Limits;
  readonly powers: Powers;
  /** Writes into the record what was pushed. */
  record(detail: Readonly<Record<string, unknown>>): void;
}

/** Most bytes of one answer to `workspaces.read`. */
const READ_BYTES_MAX = 512 * 1024;

export class OpenClone implements PlacedWorkspace {
  readonly folder: string;
  readonly #options: OpenCloneOptions;
  readonly #upload: BundleUpload;
  /** The changes that `read` gives. */
  #changes: Changes | undefined;
  #bytesTotal = 0;
  /** The snapshot that the client is collecting, and the one that it has whole. */
  #offered: string | undefined;
  #collected: string | undefined;
  /** One request after the other. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: OpenCloneOptions) {
    this.#options = options;
    const { clone, git, limits } = options;
    this.folder = cloneFiles(clone.folder).workspace;
    this.#upload = new BundleUpload({ clone, git, limits });
    options.lent.add(this.folder);
  }

  get told(): PlacedWorkspace['told'] {
    const { clone, node, limits } = this.#options;
    return { name: `${node}:kept/${clone.about.key}`, branch: clone.about.branch, keptMs: limits.fleetKeptMs };
  }

  collect({ as, branch }: Parameters<PlacedWorkspace['collect']>[0]): Promise<CollectedChanges> {
    return this.#inTurn(async () => {
      const origin = as === 'push' ? this.#pushable(branch) : undefined;
      const changes = this.#changesOf();
      this.#changes = undefined;
      const snapshot = await changes.snapshot();
      const { commit, files, problems } = snapshot;
      const { base = '', branch: own } = this.#options.clone.about;
      const changed = commit !== base;
      const told = { changed, base, commit, branch: origin ? (branch ?? own) : own, files, problems };
      if (!changed || origin) {
        if (origin && changed) {
          this.#options.record({ pushed: origin.url, branch: told.branch, commit });
          await changes.push(origin, told.branch);
        }
        this.#collected = print(snapshot);
        return origin && changed ? { ...told, pushedTo: origin.url } : told;
      }
      const written = await changes.write(as === 'patch' ? 'patch' : 'bundle');
      this.#changes = changes;
      this.#bytesTotal = written.bytes;
      this.#offered = print(snapshot);
      return { ...told, ...written };
    });
  }

  read({ offset, limit }: Parameters<PlacedWorkspace['read']>[0]): ReturnType<PlacedWorkspace['read']> {
    return this.#inTurn(async () => {
      const bytesTotal = this.#bytesTotal;
      if (!this.#changes) throw new RpcError('INVALID_PARAMS', 'nothing was collected; ask workspaces.collect first');
      await using file = await open(this.#changes.file, constants.O_RDONLY | constants.O_NOFOLLOW);
      const data = Buffer.alloc(Math.max(0, Math.min(limit ?? READ_BYTES_MAX, READ_BYTES_MAX, bytesTotal - offset)));
      const { bytesRead } = await file.read(data, 0, data.length, offset);
      const eof = offset + bytesRead >= bytesTotal;
      if (eof) this.#collected = this.#offered;
      return { data: data.subarray(0, bytesRead), bytesTotal, eof };
    });
  }

  upload(asked: Parameters<PlacedWorkspace['upload']>[0]): ReturnType<PlacedWorkspace['upload']> {
    return this.#inTurn(() => this.#upload.add(asked));
  }

  unpack({ commit }: Parameters<PlacedWorkspace['unpack']>[0]): ReturnType<PlacedWorkspace['unpack']> {
    return this.#inTurn(async () => {
      const { clone, clones } = this.#options;
      await this.#upload.unpack(commit);
      clones.note(clone, { base: commit });
      return { branch: clone.about.branch };
    });
  }

  release(): void {
    const { clone, clones, powers, lent } = this.#options;
    lent.delete(this.folder);
    clone.ending = this.#inTurn(async () => {
      if (await this.#isCollected()) clones.remove(clone);
      else clones.keep(clone);
    }).catch((error: Error) => {
      powers.log.warn({ clone: clone.id, reason: error.message }, 'a workspace is kept, since its state is not known');
      clones.keep(clone);
    });
  }

  /** Whether the client has all that the workspace holds. */
  async #isCollected(): Promise<boolean> {
    const { base } = this.#options.clone.about;
    if (base === undefined) return true;
    const snapshot = await this.#changesOf().snapshot();
    return snapshot.commit === base || print(snapshot) === this.#collected;
  }

  /** Throws RpcError INVALID_PARAMS while there is nothing to compare with. */
  #changesOf(): Changes {
    const { clone, git, limits } = this.#options;
    const { base, branch } = clone.about;
    if (base === undefined)
      throw new RpcError('INVALID_PARAMS', 'upload a bundle first: workspaces.upload, then workspaces.unpack');
    return new Changes(git, { folder: clone.folder, base, branch }, limits);
  }

  /** The repository that a session may push a branch to. Throws RpcError. */
  #pushable(branch: string | undefined): Origin {
    const { settings, clone } = this.#options;
    const { url, branch: own } = clone.about;
    const origin = url === undefined ? undefined : settings.originOf(url);
    if (!origin) throw new RpcError('FORBIDDEN', 'the workspace comes from no repository that this node may use');
    if (isBranchOf(origin.push, branch ?? own)) return origin;
    throw new RpcError(
      'FORBIDDEN',
      `sessions may push ${origin.push ?? 'no branch'} to ${origin.url}, not ${branch ?? own}`,
    );
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work);
    this.#last = done.catch(() => {});
    return done;
  }
}

const print = ({ tree, head }: Snapshot): string => `${tree} ${head}`;
