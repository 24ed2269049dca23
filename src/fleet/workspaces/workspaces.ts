/** Makes the workspaces of sessions that a fleet places on this node: clones of repositories, and what clients upload. */
import { mkdir, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { RpcError } from '../../base/errors.ts';
import type { PlacedWorkspace, PlacedWorkspaces } from '../../gateway/connections/placed-workspaces.ts';
import { checkOut, cloneFiles } from './checkout.ts';
import { type Clone, Clones } from './clones.ts';
import { ConfinedGit, type ConfinedGitParts } from './confined-git.ts';
import { Mirrors } from './mirrors.ts';
import { OpenClone } from './open-clone.ts';
import type { FleetSettings } from './settings.ts';
import { parseSource } from './source.ts';

export interface FleetWorkspacesOptions extends ConfinedGitParts {
  readonly settings: FleetSettings;
  /** The folders of open sessions, which these may work in. */
  readonly lent: Set<string>;
  /** Writes into the record what was fetched and pushed. */
  record(detail: Readonly<Record<string, unknown>>): void;
}

export class FleetWorkspaces implements PlacedWorkspaces, Disposable {
  readonly #options: FleetWorkspacesOptions;
  readonly #git: ConfinedGit;
  readonly #mirrors: Mirrors;
  readonly #clones: Clones;

  constructor(options: FleetWorkspacesOptions) {
    this.#options = options;
    const { settings, limits, powers } = options;
    this.#git = new ConfinedGit(options);
    const own = { git: this.#git, limits, powers, record: options.record };
    this.#mirrors = new Mirrors({ ...own, folder: join(settings.folder, 'mirrors') });
    this.#clones = new Clones({ ...own, folder: join(settings.folder, 'clones') });
  }

  get warm(): readonly string[] {
    return this.#mirrors.warm;
  }

  async open(named: string, node: string): Promise<PlacedWorkspace> {
    const { powers } = this.#options;
    const startedAtMs = powers.monotonicMs();
    try {
      const clone = await this.#make(named);
      powers.log.info({ clone: clone.id, ms: Math.round(powers.monotonicMs() - startedAtMs) }, 'a workspace is ready');
      const { settings, limits, lent, record } = this.#options;
      const own = { git: this.#git, clones: this.#clones, settings, lent, limits, powers, record };
      return new OpenClone({ ...own, clone, node });
    } catch (error) {
      if (error instanceof RpcError) throw error;
      powers.log.error({ error }, 'a workspace could not be made');
      throw new RpcError(
        'OVERLOADED',
        `the node could not make the workspace: ${(error as NodeJS.ErrnoException).code}`,
      );
    }
  }

  async #make(named: string): Promise<Clone> {
    const source = parseSource(named);
    if (!source)
      throw new RpcError('INVALID_PARAMS', `${named.slice(0, 128)} names no repository, bundle or kept workspace`);
    if (source.kind === 'kept') return await this.#clones.takeKept(source.id);
    if (source.kind === 'git') return await this.#clone(source.url, source.commit);
    const clone = this.#clones.create();
    await mkdir(cloneFiles(clone.folder).workspace, { mode: 0o700 });
    this.#clones.note(clone, {});
    return clone;
  }

  async #clone(url: string, commit: string): Promise<Clone> {
    const { settings, limits } = this.#options;
    const origin = settings.originOf(url);
    if (!origin)
      throw new RpcError(
        'FORBIDDEN',
        `this node may not fetch ${url}; its operator lists repositories in fleet.origins`,
      );
    return await this.#mirrors.with(origin, commit, async (from) => {
      const clone = this.#clones.create();
      try {
        const { branch } = clone.about;
        const made = await checkOut(this.#git, { folder: clone.folder, from, commit, branch, origin: url }, limits);
        await rename(made, cloneFiles(clone.folder).workspace);
        this.#clones.note(clone, { url, base: commit });
        return clone;
      } catch (error) {
        this.#clones.remove(clone);
        throw error;
      }
    });
  }

  [Symbol.dispose](): void {
    for (const it of [this.#git, this.#clones]) it[Symbol.dispose]();
  }
}
