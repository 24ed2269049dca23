/**
 * Bare mirrors of repositories, from which the clones of sessions are made without asking the server again. They are
 * bounded in number and bytes; the least recently used one that nobody uses makes room.
 */
import { existsSync, mkdirSync, readdirSync, rmSync, statSync, utimesSync } from 'node:fs';
import { readdir, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { RpcError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import { hasCommit } from './checkout.ts';
import type { ConfinedGit, GitRequest } from './confined-git.ts';
import { makeRepository, packsOf } from './repository-files.ts';
import type { Origin } from './settings.ts';
import { originHash } from './source.ts';

interface Mirror {
  readonly hash: string;
  /** Absolute path of its git directory. */
  readonly gitDir: string;
  /** Commits that were found whole, and small enough. */
  readonly commits: Set<string>;
  users: number;
  usedAtMs: number;
  bytes: number;
  /** The last fetch that was asked for; the next one waits for it. */
  last: Promise<void>;
}

export interface MirrorsOptions {
  /** Absolute path of the folder for mirrors. */
  readonly folder: string;
  readonly git: ConfinedGit;
  readonly limits: Limits;
  readonly powers: Powers;
  /** Writes into the record what was fetched. */
  record(detail: Readonly<Record<string, unknown>>): void;
}

/** Bytes of a mirror of an earlier daemon until it is looked at. */
const KEPT_BYTES = 1;

/** Commits of one mirror that are known without a look. */
const COMMITS_KNOWN_MAX = 1_000;

export class Mirrors {
  readonly #options: MirrorsOptions;
  readonly #mirrors = new Map<string, Mirror>();

  /** Takes over the mirrors of earlier daemons. */
  constructor(options: MirrorsOptions) {
    this.#options = options;
    const { folder } = options;
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    for (const name of readdirSync(folder)) {
      const gitDir = join(folder, name);
      const [, hash] = /^([0-9a-f]{32})\.git$/.exec(name) ?? [];
      if (hash === undefined || !existsSync(join(gitDir, 'HEAD'))) rmSync(gitDir, { recursive: true, force: true });
      else this.#mirrors.set(hash, { ...this.#entry(hash, statSync(gitDir).mtimeMs), bytes: KEPT_BYTES });
    }
  }

  /** Hashes of the repositories with a mirror, the most recently used first. */
  get warm(): string[] {
    return this.#byUse.filter((it) => it.bytes > 0).map((it) => it.hash);
  }

  get #byUse(): Mirror[] {
    return [...this.#mirrors.values()].sort((a, b) => b.usedAtMs - a.usedAtMs);
  }

  /** Has a commit, by fetching it if it is missing, and calls `work` with the mirror's git directory. Throws RpcError. */
  async with<T>(origin: Origin, commit: string, work: (gitDir: string) => Promise<T>): Promise<T> {
    const { powers } = this.#options;
    const mirror = await this.#take(origin);
    mirror.usedAtMs = powers.now();
    try {
      await mirror.last;
      if (!mirror.commits.has(commit)) await this.#have(mirror, origin, commit);
      utimesSync(mirror.gitDir, mirror.usedAtMs / 1000, mirror.usedAtMs / 1000);
      return await work(mirror.gitDir);
    } finally {
      mirror.users -= 1;
      await this.#makeRoom();
    }
  }

  #entry(hash: string, usedAtMs: number): Mirror {
    const gitDir = join(this.#options.folder, `${hash}.git`);
    return { hash, gitDir, commits: new Set(), users: 0, usedAtMs, bytes: 0, last: Promise.resolve() };
  }

  /** The mirror of a repository, which is not dropped until its user has gone. */
  async #take({ url }: Origin): Promise<Mirror> {
    const { limits, powers } = this.#options;
    const hash = originHash(url);
    const known = this.#mirrors.get(hash);
    if (known) {
      known.users += 1;
      await known.last;
      if (known.users > 1 || (await packsOf(known.gitDir)).length <= limits.fleetMirrorPacksMax) return known;
      await this.#drop(known);
    }
    // Another session may have made it meanwhile.
    const made = this.#mirrors.get(hash) ?? this.#entry(hash, powers.now());
    made.users += 1;
    if (this.#mirrors.has(hash)) return made;
    this.#mirrors.set(hash, made);
    made.last = makeRepository({ gitDir: made.gitDir, isBare: true });
    made.last.catch(() => this.#mirrors.delete(hash));
    return made;
  }

  /** Looks for a commit in the mirror, then at its origin; one fetch at a time. */
  #have(mirror: Mirror, origin: Origin, commit: string): Promise<void> {
    const { git, limits } = this.#options;
    const work = async (): Promise<void> => {
      if (mirror.commits.has(commit)) return;
      if (!(await hasCommit(git, mirror.gitDir, commit, limits))) {
        await this.#fetch(mirror, origin, commit);
        if (!(await hasCommit(git, mirror.gitDir, commit, limits)))
          throw new RpcError('INVALID_PARAMS', `${origin.url} has no commit ${commit}, or not all of its files`);
      }
      if (mirror.commits.size >= COMMITS_KNOWN_MAX) mirror.commits.clear();
      mirror.commits.add(commit);
    };
    const done = mirror.last.then(work);
    // A commit that can't be had concerns its own session alone.
    mirror.last = done.catch(() => {});
    return done;
  }

  async #fetch(mirror: Mirror, origin: Origin, commit: string): Promise<void> {
    const { git, limits, powers } = this.#options;
    const begunAtMs = powers.monotonicMs();
    const exact = this.#request(mirror, origin, [`${commit}:refs/ringfence/${commit}`]);
    await removeUnfinished(mirror.gitDir);
    const result = await git.try(exact);
    // Servers may give only what a branch or a tag names.
    const isRefused = /not our ref|unadvertised object|no such remote ref|couldn't find remote ref/i.test(
      result.stderr,
    );
    if (result.exitCode !== 0 && isRefused)
      await git.run(
        `${origin.url} can't be fetched`,
        this.#request(mirror, origin, ['+refs/heads/*:refs/heads/*', '+refs/tags/*:refs/tags/*']),
      );
    else if (result.exitCode !== 0 || result.cut)
      throw new RpcError('INVALID_PARAMS', `${origin.url} can't be fetched: ${git.whyFailed(result, exact)}`);
    mirror.bytes = await bytesOf(mirror.gitDir);
    powers.log.info(
      { repository: mirror.hash, bytes: mirror.bytes, ms: Math.round(powers.monotonicMs() - begunAtMs) },
      'a mirror was fetched',
    );
    this.#options.record({ fetched: origin.url, commit, bytes: mirror.bytes });
    if (mirror.bytes <= limits.fleetMirrorBytes) return;
    mirror.commits.clear();
    throw new RpcError(
      'INVALID_PARAMS',
      `the mirror of ${origin.url} has ${mirror.bytes} bytes; at most ${limits.fleetMirrorBytes} may be`,
    );
  }

  #request({ gitDir }: Mirror, { url, network }: Origin, refs: readonly string[]): GitRequest {
    const protocol = new URL(url).protocol.slice(0, -1) as 'http' | 'https' | 'file';
    const quiet = ['--quiet', '--no-tags', '--no-write-fetch-head', '--no-auto-maintenance', '--no-recurse-submodules'];
    return {
      args: ['fetch', ...quiet, '--', url, ...refs],
      folder: gitDir,
      ...(protocol === 'file' && { reads: [new URL(url).pathname] }),
      env: { GIT_DIR: gitDir },
      fileBytes: this.#options.limits.fleetMirrorBytes,
      network: { protocol, layer: network },
    };
  }

  /** Drops what is empty or too large by itself, and the least recently used mirrors beyond the bounds. */
  async #makeRoom(): Promise<void> {
    const { fleetMirrorsMax, fleetMirrorsBytes, fleetMirrorBytes } = this.#options.limits;
    for (const it of this.#byUse) if (it.bytes <= KEPT_BYTES) it.bytes = await bytesOf(it.gitDir);
    let [bytes, count] = [0, 0];
    for (const it of this.#byUse) {
      // One without objects, whose repository could not be fetched, pushes no other out.
      const isOfUse = it.bytes > 0 && it.bytes <= fleetMirrorBytes;
      const fits = isOfUse && count < fleetMirrorsMax && bytes + it.bytes <= fleetMirrorsBytes;
      if (fits || it.users > 0) {
        bytes += it.bytes;
        count += it.bytes > 0 ? 1 : 0;
      } else await this.#drop(it);
    }
  }

  async #drop(mirror: Mirror): Promise<void> {
    if (this.#mirrors.get(mirror.hash) !== mirror) return;
    this.#mirrors.delete(mirror.hash);
    // The next mirror may have the name at once.
    const removed = `${mirror.gitDir}.${this.#options.powers.uuid()}.removed`;
    await rename(mirror.gitDir, removed);
    await rm(removed, { recursive: true, force: true });
  }
}

/** Removes what a fetch that was ended has left. */
async function removeUnfinished(gitDir: string): Promise<void> {
  const folder = join(gitDir, 'objects/pack');
  for (const name of await readdir(folder)) if (name.startsWith('tmp_')) await rm(join(folder, name), { force: true });
}

/** Bytes of the packs of a repository, those of fetches that were ended included. */
async function bytesOf(gitDir: string): Promise<number> {
  const folder = join(gitDir, 'objects/pack');
  const names = await readdir(folder).catch(() => []); // ENOENT: the mirror was dropped.
  const sizes = names.map((name) => stat(join(folder, name)).then((it) => it.size));
  // ENOENT: a fetch goes on meanwhile, and renames its files.
  const known = await Promise.allSettled(sizes);
  return known.reduce((sum, it) => sum + (it.status === 'fulfilled' ? it.value : 0), 0);
}
