/** Provides the masks of hosts and commands, from one index for each workspace. */
import { lstatSync } from 'node:fs';
import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Tier } from '../base/call.ts';
import { ToolError, toToolError } from '../base/errors.ts';
import type { Limits } from '../base/limits.ts';
import { fromRoot, isBelow } from '../base/paths.ts';
import type { Powers } from '../base/powers.ts';
import { isProtectedName, type OutsideProgram } from '../base/protected-names.ts';
import { showLine } from '../base/text/shown-text.ts';
import { pathDecision } from '../policy/paths.ts';
import { type CoarseMask, describeCoarse } from '../sandbox/coarse-masks.ts';
import { type Masks, NO_MASKS } from '../sandbox/masks.ts';
import type { EgressLine } from './egress.ts';
import { FollowedCommand } from './follower/followed-command.ts';
import { type Follower, type Unfollowed, watchesOfUser } from './follower/follower.ts';
import { OutsidePrograms } from './follower/outside-programs.ts';
import type { WalkMarks } from './follower/walk-marks.ts';
import type { PathView } from './job.ts';
import type { BegunCommand, NewcomersOptions, NewcomersRun } from './quarantine/commands.ts';
import { Newcomers } from './quarantine/newcomers.ts';
import { type TreeState, WorkspaceIndex } from './workspace-index.ts';

/** The view of hosts that see no paths. */
export const NO_VIEW: PathView = { key: '', rules: [], home: '' };

/** Identifies a host: calls with the same key share one. */
export interface HostKey {
  readonly tier: Tier;
  /** Absolute path without links. */
  readonly workspace: string;
  readonly view: PathView;
  /** Whether the host is for tools that keep something between calls. */
  readonly keeps?: boolean;
  /** JavaScript heap of the host's threads in MiB, if a policy allows less than the daemon. */
  readonly heapMb?: number;
  /** The proxy for commands that may connect. */
  readonly egress?: EgressLine;
  /** Whose turn it is to start the host; calls of several principals may share one. */
  readonly principal?: string;
}

/** The masks that a host is started with. */
export interface HeldMasks {
  readonly masks: Masks;
  /** Identifies the masked files and directories; if it differs, a running host no longer masks the right ones. */
  readonly fingerprint: string;
  /** Identifies the workspace's directory: a running host keeps its own, even after it was moved or its name was reused. */
  readonly root: string;
  /** State of the tree that the masks are from, if known. */
  readonly state?: TreeState;
}

/** The index of one directory; its watcher also stays with that directory. */
interface IndexOfRoot {
  readonly root: string;
  readonly index: WorkspaceIndex;
  /** Moves protected names away that commands make. */
  readonly newcomers: Newcomers | undefined;
  /** Programs of the person that follow the workspace, to be told once. */
  readonly outside: OutsidePrograms;
}

/** What moves protected names away. */
export type Guarding = Pick<NewcomersOptions, 'quarantine'> & {
  knownAmong(
    workspace: string,
    ...of: Parameters<NewcomersOptions['knownAmong']>
  ): ReturnType<NewcomersOptions['knownAmong']>;
  copiesPlace(workspace: string): string | undefined;
  onItems: NewcomersOptions['onItems'];
};

/** A coarse mask with its workspace, for `status`. */
export interface CoarseIn extends CoarseMask {
  readonly workspace: string;
}

/** A workspace in which changes are looked for, and commands can't be undone, for `status`. */
export interface UnfollowedIn {
  readonly workspace: string;
  readonly why: Unfollowed;
}

const KINDS = ['write', 'delete'] as const;
/** Time between two looks for programs of the person while somebody asks for the status; the answer waits for none. */
const STATUS_LOOK_MS = 5_000;
const NO_HELD_MASKS = { masks: NO_MASKS, fingerprint: '' };

export class HostMasks implements AsyncDisposable {
  readonly #held = new WeakMap<Masks, { readonly reads: number; readonly held: Promise<typeof NO_HELD_MASKS> }>();
  readonly #indexes = new Map<string, IndexOfRoot>();
  /** Warnings already logged for workspaces whose masks can't be known, by workspace. */
  readonly #warned = new Map<string, string>();
  readonly #limits: Limits;
  readonly #powers: Powers;
  readonly #walks: WalkMarks | undefined;
  readonly #guarding: Guarding | undefined;

  /** `walks` tells of daemons that died at a workspace; without `guarding`, protected names that commands make stay. */
  constructor(limits: Limits, powers: Powers, { walks, guarding }: { walks?: WalkMarks; guarding?: Guarding } = {}) {
    this.#guarding = guarding;
    this.#limits = limits;
    this.#powers = powers;
    this.#walks = walks;
  }

  /** Begins the walk of a workspace, so that its first host need not wait for it. */
  prepare(workspace: string): void {
    if (rootOf(workspace) !== undefined) this.#indexOf(workspace).index.prepare();
  }

  /**
   * The masks to start a host with. They may be empty: the host's tools check each path, too. Throws NOT_FOUND if the
   * workspace is gone.
   */
  async of({ tier, workspace, view }: HostKey): Promise<HeldMasks> {
    if (tier === 'external_api') return { ...NO_HELD_MASKS, root: '' };
    const { index, root } = this.#indexOf(workspace);
    if (!hasMasks(tier)) return { ...NO_HELD_MASKS, root };
    const { state } = index;
    try {
      const masks = toHostMasks(await index.knownMasks(denying(view)), tier);
      const { reads } = index;
      const known = this.#held.get(masks);
      if (known?.reads === reads) return { ...(await known.held), root, state };
      const held = fingerprintOf(masks, workspace).then((fingerprint) => ({ masks, fingerprint }));
      this.#held.set(masks, { reads, held });
      return { ...(await held), root, state };
    } catch (error) {
      this.#warnOnce(workspace, toToolError(error));
      return { ...NO_HELD_MASKS, root };
    }
  }

  /** Waits until `of` gives the masks of the workspace as it is now. Throws SANDBOX_UNAVAILABLE if they can't be known. */
  async settle({ workspace }: Pick<HostKey, 'workspace'>): Promise<void> {
    await this.#indexOf(workspace).index.settle();
  }

  /** Whether `of` would give the same masks again; false if finding out takes waiting. */
  isAsOf(
    { tier, workspace }: HostKey,
    { root, state }: Pick<HeldMasks, 'root'> & { readonly state?: TreeState | undefined },
  ): boolean {
    if (tier === 'external_api') return true;
    if (rootOf(workspace) !== root) return false;
    return !hasMasks(tier) || (state !== undefined && this.#indexes.get(workspace)?.index.isAsOf(state) === true);
  }

  /** The masks of a command that starts now. Throws SANDBOX_UNAVAILABLE if they can't be known or mounted. */
  async ofCommand({ workspace, view }: HostKey, lifted: readonly string[]): Promise<Masks> {
    return this.#indexOf(workspace).index.masks(view, lifted);
  }

  /** Follows the workspace of a key. Throws NOT_FOUND if it is gone. */
  followerOf({ workspace }: Pick<HostKey, 'workspace'>): Follower {
    return this.#indexOf(workspace).index.follower;
  }

  /** Follows the workspace while a command runs, from right after `ofCommand`. */
  follow({ workspace, view }: HostKey, masks: Masks, signal: AbortSignal): FollowedCommand {
    const { index, outside } = this.#indexOf(workspace);
    outside.look();
    const place = { workspace, view, masks, limits: this.#limits, follower: index.follower };
    return new FollowedCommand({ ...place, changed: index.beginChanges() }, signal);
  }

  /** A command is about to start: protected names that come to be from now on are moved away. */
  guard({ workspace, view }: HostKey, of: Omit<BegunCommand, 'isHeld'>): Promise<NewcomersRun> | undefined {
    const isHeld = (path: string) => {
      const named = fromRoot(view.root ?? workspace, workspace, path);
      const decisions = KINDS.map((kind) => pathDecision(view.rules, kind, named, view.home)?.decision ?? 'allow');
      return decisions.some((it) => it !== 'allow');
    };
    return this.#indexOf(workspace).newcomers?.begin({ ...of, isHeld });
  }

  /** Tools of ours are about to write paths, relative to the root of a view, until the result is called. */
  expect(
    { workspace, view }: Pick<HostKey, 'workspace' | 'view'>,
    paths: readonly string[],
  ): (() => Promise<void>) | undefined {
    const prefix = fromRoot(view.root ?? workspace, workspace, '');
    const own = paths.flatMap((it) => (isBelow(prefix, it) ? [prefix === '' ? it : it.slice(prefix.length + 1)] : []));
    return this.#indexOf(workspace).newcomers?.expect(own);
  }

  /** Sockets that the command of the last `ofCommand` must not reach; undefined if they can't be masked. */
  socketsOf({ workspace }: HostKey): readonly string[] | undefined {
    return this.#indexes.get(workspace)?.index.sockets;
  }

  /**
   * The masks of a long-running program, equal to those of a command that starts now. Throws SANDBOX_UNAVAILABLE if
   * they can't be known or mounted.
   */
  async ofProgram(place: Pick<HostKey, 'workspace' | 'view'>): Promise<HeldMasks> {
    const { index, root } = this.#indexOf(place.workspace);
    const masks = await index.masks(place.view, []);
    const nameless = masks.hidden.find((it) => it.bytes);
    if (nameless)
      throw new ToolError('SANDBOX_UNAVAILABLE', `\`${nameless.path}\` must be hidden, but its name is not UTF-8`, {
        suggestion: 'Rename it.',
      });
    return { masks, root, fingerprint: `${root} ${await fingerprintOf(masks, place.workspace)}` };
  }

  /** Directories that are masked more coarsely than the policy says, as far as known. */
  coarse(): CoarseIn[] {
    return [...this.#indexes].flatMap(([workspace, { index }]) => index.coarse.map((it) => ({ workspace, ...it })));
  }

  /** Workspaces that are not wholly followed, and why. */
  unfollowed(): UnfollowedIn[] {
    return [...this.#indexes].flatMap(([workspace, { index }]) => {
      const { unfollowed } = index.follower;
      return unfollowed ? [{ workspace, why: unfollowed }] : [];
    });
  }

  /** Programs of the person that follow a workspace of ours, as of the last look; another one follows. */
  outsidePrograms(): OutsideProgram[] {
    return [...this.#indexes.values()].flatMap(({ outside }) => {
      outside.look(STATUS_LOOK_MS);
      return outside.found;
    });
  }

  /** Programs of the person that follow a workspace and that no result has named yet, as far as known. */
  newOutsidePrograms(workspace: string): readonly OutsideProgram[] {
    return this.#indexes.get(workspace)?.outside.take() ?? [];
  }

  /** Ends the indexes of workspaces that are not in `needed` and were not used recently. */
  reap(needed: ReadonlySet<string>): void {
    for (const [workspace, it] of this.#indexes) {
      const { index } = it;
      if (needed.has(workspace) || this.#powers.monotonicMs() - index.usedAt < this.#limits.hostIdleMs) continue;
      this.#indexes.delete(workspace);
      this.#warned.delete(workspace);
      void endOf(it);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#indexes.values()].map(endOf));
  }

  /** The index of the directory that the workspace's path names now. Throws NOT_FOUND if there is none. */
  #indexOf(workspace: string): IndexOfRoot {
    const root = rootOf(workspace);
    if (root === undefined)
      throw new ToolError('NOT_FOUND', `the workspace ${workspace} is no longer a directory`, {
        suggestion:
          'It was moved or removed: add its new place with `ringfence workspace add DIR`, or create it again.',
      });
    const known = this.#indexes.get(workspace);
    if (known?.root === root) return known;
    if (known) void endOf(known);
    const follows = { watchesLeft: () => this.#watchesLeft(), walks: this.#walks };
    const index = new WorkspaceIndex(workspace, this.#limits, this.#powers, follows);
    const outside = new OutsidePrograms({ workspace, follower: index.follower, powers: this.#powers });
    const fresh = { root, index, outside, newcomers: this.#newcomersIn(workspace, index) };
    this.#indexes.set(workspace, fresh);
    return fresh;
  }

  #newcomersIn(workspace: string, index: WorkspaceIndex): Newcomers | undefined {
    const guarding = this.#guarding;
    return (
      guarding &&
      new Newcomers({
        ...guarding,
        workspace,
        powers: this.#powers,
        follower: index.follower,
        names: async () => (await index.masks(NO_VIEW)).readOnly,
        knownAmong: (...of) => guarding.knownAmong(workspace, ...of),
        copiesPlace: () => guarding.copiesPlace(workspace),
      })
    );
  }

  /** Half of the user's watches are for all workspaces together. */
  #watchesLeft(): number {
    const taken = [...this.#indexes.values()].reduce((sum, { index }) => sum + index.follower.folders, 0);
    return watchesOfUser() - taken;
  }

  #warnOnce(workspace: string, error: ToolError): void {
    if (this.#warned.get(workspace) === error.message) return;
    this.#warned.set(workspace, error.message);
    const message = 'tier hosts without masks: paths are judged in their tools only, and commands are refused';
    this.#powers.log.warn({ workspace, error }, message);
  }
}

async function endOf({ index, newcomers }: IndexOfRoot): Promise<void> {
  newcomers?.[Symbol.dispose]();
  await index[Symbol.asyncDispose]();
}

/** Whether hosts of the tier are started with masks: commands have their own, and a host without a workspace needs none. */
const hasMasks = (tier: HostKey['tier']): boolean => tier !== 'execute' && tier !== 'external_api';

/**
 * Identifies the directory at a path; undefined if there is none. While a running host has it mounted, its inode
 * number is not reused.
 */
function rootOf(workspace: string): string | undefined {
  const stat = lstatSync(workspace, { bigint: true, throwIfNoEntry: false });
  return stat?.isDirectory() ? `${stat.dev} ${stat.ino}` : undefined;
}

/**
 * Identifies the masked files by inode: a file that is replaced, as editors do on save, is no longer covered by the
 * mount on the old one.
 */
async function fingerprintOf({ hidden, readOnly, pinned }: Masks, workspace: string): Promise<string> {
  const paths = [...hidden.map((it) => it.path), ...readOnly, ...pinned];
  // Inode numbers are reused at once; birth times are not.
  const files = await Promise.all(
    paths.map((path) =>
      lstat(join(workspace, path), { bigint: true }).then(
        (it) => `${it.ino} ${it.birthtimeNs}`,
        () => '',
      ),
    ),
  );
  return JSON.stringify([hidden, readOnly, pinned, files]);
}

const denyingViews = new WeakMap<PathView, PathView>();

/**
 * The `deny` rules of a view, which a host's mounts apply. Approved and other calls share a host, so `ask` rules are
 * left to the gateway, which asked, and to the host's own check of the real path. Gives the same object for the same
 * view.
 */
function denying(view: PathView): PathView {
  if (view.rules.every((it) => it.decision === 'deny')) return view;
  const known = denyingViews.get(view) ?? {
    ...view,
    key: `${view.key} deny`,
    rules: view.rules.filter((it) => it.decision === 'deny'),
  };
  denyingViews.set(view, known);
  return known;
}

const hostMasks = new WeakMap<Masks, { readonly [T in 'read' | 'write']?: Masks }>();

/**
 * The masks for a host that runs our tools. A host that sees the workspace read-only needs no read-only mounts. Names
 * that no argument can hold, and the workspace's own entries if there are too many, are left to the tools' check of
 * each path. Gives the same object for the same masks.
 */
function toHostMasks(masks: Masks, tier: Tier): Masks {
  const kind = tier === 'read_only' ? 'read' : 'write';
  const known = hostMasks.get(masks);
  const same = known?.[kind];
  if (same) return same;
  const hidden = masks.hidden.filter((it) => it.bytes === undefined);
  const { readOnly: held, pinned } = kind === 'read' ? NO_MASKS : masks;
  // A person may say yes to a call that writes a protected name; the tools refuse all others.
  const readOnly = held.filter((it) => !isProtectedName(it));
  const fresh = { hidden, readOnly, pinned };
  hostMasks.set(masks, { ...known, [kind]: fresh });
  return fresh;
}

/** The most directories that one result names as hidden whole; an agent can make any number of them. */
const TOLD_MAX = 3;

/** Warnings about directories that were hidden from a command although no rule names them. */
export function coarseWarnings(coarse: readonly CoarseMask[]): string[] {
  const warnings = coarse.slice(0, TOLD_MAX).map((it) => showLine(describeCoarse(it)));
  const more = coarse.length - TOLD_MAX;
  return more > 0 ? [...warnings, `${more} more directories are hidden whole; see \`ringfence status\``] : warnings;
}
