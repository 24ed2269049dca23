/**
 * Gives a command its own copy of each repository config that it may not write. git writes a config by renaming a new file over it,
 * which the kernel refuses on a mount point; but through a symbolic link git renames beside the link's target. So a link is mounted
 * over the config, and leads to a small file system of the command's own. bubblewrap can't mount links: native/mount-links.c
 * does it in the sandbox before any of the caller's programs run there. If that fails, the read-only mount below stays.
 * docs/decisions/0017-git-config-of-commands.md.
 */
import type { ChildProcess } from 'node:child_process';
import { closeSync, constants, openSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { Writable } from 'node:stream';
import { nativeProgram } from '../../../base/native-programs.ts';
import { isInside, isTrusted } from '../../../base/paths.ts';
import type { Powers } from '../../../base/powers.ts';
import { GIT_COPIES } from '../../bubblewrap.ts';
import type { Status } from '../../command/status.ts';
import { ancestorsOf, type Masks } from '../../masks.ts';
import { type MountEntry, mountsOf } from '../../proc.ts';
import { isWhole } from './changes.ts';
import { isThere, readBelow, readIn, type TakenOver, takeOver, WORKTREE_CONFIG } from './take-over.ts';
import { parseGitConfig } from './text.ts';

/** A config as a command gets it. */
export interface GivenConfig {
  /** Relative to the workspace. */
  readonly path: string;
  readonly text: string;
}

/** When a command's changes are taken over: while it runs, at its end, or never. */
export type TakeOverTime = 'running' | 'ended' | 'never';

/** Repositories whose configs a command may change; other configs stay read-only. */
const REPOSITORIES_MAX = 4;
const GIVEN_BYTES_MAX = 64 * 1024;
const LEFT_BYTES_MAX = 128 * 1024;
/** Bytes that a command may write beside its configs. */
const COPIES_BYTES = 1024 * 1024;
const O_PATH = 0x200000;

/** Consecutive failures. On a system that can't mount links this way, commands stop trying. */
let failures = 0;
const FAILURES_MAX = 3;

/** Chooses the configs that a command with these masks, which begins in `cwd`, gets copies of: those of the nearest repositories. */
export function givenConfigs(
  { readOnly }: Masks,
  { workspace, cwd }: { workspace: string; cwd: string },
): GivenConfig[] {
  if (failures >= FAILURES_MAX) return [];
  const held = new Set(readOnly);
  const isHeldAbove = (path: string) => held.has('') || ancestorsOf(path).some((it) => held.has(it));
  return [...held]
    .filter((it) => basename(it) === 'config' && isTrusted(it, 'file') && !isHeldAbove(it))
    .sort((a, b) => farFrom(cwd, join(workspace, a)) - farFrom(cwd, join(workspace, b)))
    .slice(0, REPOSITORIES_MAX)
    .flatMap((path) => {
      const ofWorktree = join(dirname(path), WORKTREE_CONFIG);
      return held.has(ofWorktree) ? [path, ofWorktree] : [path];
    })
    .flatMap((path) => {
      const text = readBelow(workspace, path, GIVEN_BYTES_MAX);
      return text === undefined || !parseGitConfig(text) ? [] : [{ path, text }];
    });
}

/** Ranks a config: repositories above `cwd` first, the nearest first, then those below it. */
function farFrom(cwd: string, config: string): number {
  const root = config.slice(0, config.lastIndexOf('/.git/'));
  if (isInside(root, cwd)) return cwd.length - root.length;
  return isInside(cwd, root) ? PATH_MAX + root.length : 2 * PATH_MAX;
}

const PATH_MAX = 4096;

interface MountedCopy {
  readonly path: string;
  /** Text that the next changes are compared with. */
  given: string;
  /** Whether its settings went to the config beside it. */
  isFolded: boolean;
}

/** The copies of one sandbox. */
export class GitCopies implements Disposable {
  readonly #given: readonly GivenConfig[];
  readonly #workspace: string;
  readonly #firstFd: number;
  readonly #powers: Powers;
  readonly #open = new DisposableStack();
  /** The user namespace that owns the sandbox's mounts: its processes leave it once the sandbox is built. */
  #user: number | undefined;
  #folder: number | undefined;
  #laid: readonly MountedCopy[] = [];
  /** What an ended command left in its copies. */
  #left: readonly (string | undefined)[] | undefined;

  /** `firstFd` is the first of consecutive pipe descriptors, one for each config. */
  constructor(
    given: readonly GivenConfig[],
    { workspace, firstFd }: { readonly workspace: string; readonly firstFd: number },
    powers: Powers,
  ) {
    this.#given = given;
    this.#workspace = workspace;
    this.#firstFd = firstFd;
    this.#powers = powers;
  }

  get pipes(): readonly 'pipe'[] {
    return this.#given.map(() => 'pipe');
  }

  /** bubblewrap arguments, to follow all other mounts. */
  get args(): readonly string[] {
    if (this.#given.length === 0) return [];
    const files = this.#given.flatMap(({ path }, i) => {
      const up = '../'.repeat(dirname(join(this.#workspace, path)).split('/').length - 1);
      const link = ['--symlink', `${up}${GIT_COPIES.slice(1)}/${i}`, `${GIT_COPIES}/link-${i}`];
      return [...link, '--perms', '0644', '--file', `${this.#firstFd + i}`, `${GIT_COPIES}/${i}`];
    });
    return ['--size', `${COPIES_BYTES}`, '--tmpfs', GIT_COPIES, ...files];
  }

  /**
   * Gives bubblewrap the texts. bubblewrap waits for them while it builds, so that we can open its user namespace: later the sandbox's
   * processes are in a nested one, which has no power over the mounts.
   */
  feed(child: ChildProcess, status: Status): void {
    if (this.#given.length === 0) return;
    const stdio = child.stdio as readonly unknown[];
    const pipes = this.#given.map((_, i) => stdio[this.#firstFd + i] as Writable);
    // EPIPE: bubblewrap has ended; its status tells why.
    for (const it of pipes) it.on('error', () => {});
    status.onInit((init) => {
      this.#user = this.#hold(`/proc/${init}/ns/user`, constants.O_RDONLY);
      for (const [i, it] of pipes.entries()) it.end(this.#given[i]?.text);
    });
  }

  /** Mounts the links. The sandbox is built, and none of the caller's programs run in it yet. */
  async lay(init: number): Promise<void> {
    if (this.#given.length === 0 || this.#user === undefined) return;
    this.#folder = this.#hold(`/proc/${init}/root${GIT_COPIES}`, constants.O_RDONLY | constants.O_DIRECTORY);
    await this.#mount(init, this.#user);
    const mounts = mountsOf(init) ?? [];
    this.#laid = this.#given
      .filter((it, i) => isLaid(mounts, join(this.#workspace, it.path), i))
      .map(({ path, text }) => ({ path, given: text, isFolded: false }));
    failures = this.#laid.length > 0 ? 0 : failures + 1;
  }

  /** Takes permitted changes from the command's copies over into the repositories; of a running command, those since the last time. */
  async takeOver(time: TakeOverTime): Promise<TakenOver[]> {
    const all: TakenOver[] = [];
    for (const it of this.#laid) {
      const outcome = await this.#takeOne(it, time);
      if (outcome && outcome.taken.length + outcome.refused.length > 0) all.push(outcome);
    }
    return all;
  }

  async #takeOne(laid: MountedCopy, time: TakeOverTime): Promise<TakenOver | undefined> {
    // Checked each time: the copies may be disposed of while others are taken over.
    if ((this.#folder === undefined && !this.#left) || laid.isFolded) return undefined;
    const [workspace, { path, given }] = [this.#workspace, laid];
    const left = time === 'never' ? given : this.#leftOf(path);
    const ofWorktree = join(dirname(path), WORKTREE_CONFIG);
    const besides = this.#laid.find((it) => it.path === ofWorktree && it !== laid);
    const mayHaveMade = time !== 'running' && !besides && isThere(workspace, ofWorktree) && ofWorktree !== path;
    if (left === given && !mayHaveMade) return undefined;
    const worktree = besides && { worktree: { left: this.#leftOf(ofWorktree) } };
    const change = { workspace, path, given, left, ...worktree, isRunning: time === 'running' };
    const outcome = await takeOver(change, this.#powers);
    if (outcome.isFolded && besides) besides.isFolded = true;
    if (left !== undefined && isWhole(outcome)) laid.given = left;
    return outcome;
  }

  #leftOf(path: string): string | undefined {
    const at = this.#given.findIndex((it) => it.path === path);
    return this.#left ? this.#left[at] : this.#read(at);
  }

  #read(at: number): string | undefined {
    return this.#folder === undefined ? undefined : readIn(this.#folder, `${at}`, LEFT_BYTES_MAX);
  }

  /** Reads the copies of a command that has ended, which can then be taken over even when this has been disposed of. */
  keepLeft(): void {
    this.#left = this.#given.map((_, at) => this.#read(at));
  }

  [Symbol.dispose](): void {
    this.#folder = undefined;
    this.#open.dispose();
  }

  /** Settles when native/mount-links.c has ended; the mounts tell what it did. */
  async #mount(init: number, user: number): Promise<void> {
    const flags = O_PATH | constants.O_NOFOLLOW;
    const links = this.#given.map((_, i) => this.#hold(`/proc/${init}/root${GIT_COPIES}/link-${i}`, flags) ?? 'ignore');
    const points = this.#given.map(({ path }) => join(this.#workspace, path));
    const child = this.#powers.spawn(nativeProgram('mount-links'), [`${init}`, ...points], {
      stdio: ['ignore', 'ignore', 'ignore', user, ...links],
      env: {},
      cwd: '/',
    });
    await new Promise((resolve) => {
      child.once('error', resolve);
      child.once('exit', resolve);
    });
  }

  #hold(path: string, flags: number): number | undefined {
    try {
      const fd = openSync(path, flags);
      this.#open.defer(() => closeSync(fd));
      return fd;
    } catch {
      return undefined; // ENOENT, EACCES: the sandbox has ended, or this system does not let us look.
    }
  }
}

/** The mounts without the links, which lie over other mounts. */
export function withoutLinks(mounts: readonly MountEntry[]): readonly MountEntry[] {
  const device = deviceOf(mounts);
  return device === undefined ? mounts : mounts.filter((it) => it.device !== device || it.point === GIT_COPIES);
}

const deviceOf = (mounts: readonly MountEntry[]): string | undefined =>
  mounts.find((it) => it.point === GIT_COPIES)?.device;

const isLaid = (mounts: readonly MountEntry[], point: string, i: number): boolean =>
  mounts.some((it) => it.device === deviceOf(mounts) && it.root === `/link-${i}` && it.point === point);
