/** What the hosts and commands of a place are kept from, from one index for each workspace. */
import { lstatSync } from 'node:fs';
import { lstat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Tier } from '../call.ts';
import { ToolError, toToolError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import type { Powers } from '../powers.ts';
import type { Coarse } from '../sandbox/coarse-masks.ts';
import { type Masks, NO_MASKS } from '../sandbox/masks.ts';
import type { EgressLine } from './egress.ts';
import type { PathView } from './job.ts';
import { type TreeState, WorkspaceIndex } from './workspace-index.ts';

/** Which host: calls with the same place share one. */
export interface Place {
  readonly tier: Tier;
  /** Absolute, without links. */
  readonly workspace: string;
  readonly view: PathView;
  /** Whether it is for tools that keep something between calls. */
  readonly keeps?: boolean;
  /** JavaScript heap of its threads, in MiB, where a policy allows less than the daemon. */
  readonly heapMb?: number;
  /** The proxy of commands that may connect. */
  readonly egress?: EgressLine;
}

/** What a host is started with. */
export interface HeldMasks {
  readonly masks: Masks;
  /** Which files and directories they lie on: another one means that a running host does not hold them any more. */
  readonly print: string;
  /** Which directory the workspace is: a running host holds its own, wherever that was moved and whatever has its name now. */
  readonly root: string;
  /** What they are of, where that is known. */
  readonly state?: TreeState;
}

/** Of one directory: a watcher, too, stays with the one that it was given. */
interface Index {
  readonly root: string;
  readonly index: WorkspaceIndex;
}

/** One of a workspace's, for `status`. */
export interface CoarseIn extends Coarse {
  readonly workspace: string;
}

const NOTHING = { masks: NO_MASKS, print: '' };

export class HostMasks implements AsyncDisposable {
  readonly #held = new WeakMap<Masks, { readonly reads: number; readonly held: Promise<typeof NOTHING> }>();
  readonly #indexes = new Map<string, Index>();
  /** What was said of workspaces whose masks can't be known, so that it is said once. */
  readonly #warned = new Map<string, string>();
  readonly #limits: Limits;
  readonly #powers: Powers;

  constructor(limits: Limits, powers: Powers) {
    this.#limits = limits;
    this.#powers = powers;
  }

  /** Has the first host of a workspace not wait for its walk. */
  prepare(workspace: string): void {
    if (rootOf(workspace) !== undefined) this.#indexOf(workspace).index.prepare();
  }

  /**
   * What a host of that place is started with. Its tools judge each path too, so that one without masks is not without a wall.
   * Throws NOT_FOUND where the workspace is gone.
   */
  async of({ tier, workspace, view }: Place): Promise<HeldMasks> {
    if (tier === 'external_api') return { ...NOTHING, root: '' };
    const { index, root } = this.#indexOf(workspace);
    if (!hasMasks(tier)) return { ...NOTHING, root };
    const { state } = index;
    try {
      const masks = toHostMasks(await index.knownMasks(denying(view)), tier);
      const { reads } = index;
      const known = this.#held.get(masks);
      if (known?.reads === reads) return { ...(await known.held), root, state };
      const held = printOf(masks, workspace).then((print) => ({ masks, print }));
      this.#held.set(masks, { reads, held });
      return { ...(await held), root, state };
    } catch (error) {
      this.#warnOnce(workspace, toToolError(error));
      return { ...NOTHING, root };
    }
  }

  /** Whether `of` would say what it said when it gave these; false where that takes waiting. */
  isAsOf(
    { tier, workspace }: Place,
    { root, state }: Pick<HeldMasks, 'root'> & { readonly state?: TreeState | undefined },
  ): boolean {
    if (tier === 'external_api') return true;
    if (rootOf(workspace) !== root) return false;
    return !hasMasks(tier) || (state !== undefined && this.#indexes.get(workspace)?.index.isAsOf(state) === true);
  }

  /** What a command that starts now is kept from. Throws SANDBOX_UNAVAILABLE when that can't be known or held. */
  async ofCommand({ workspace, view }: Place, lifted: readonly string[]): Promise<Masks> {
    return this.#indexOf(workspace).index.masks(view, lifted);
  }

  /** Sockets that a command which starts now may not reach, as of the `ofCommand` before; undefined where that can't be held. */
  socketsOf({ workspace }: Place): readonly string[] | undefined {
    return this.#indexes.get(workspace)?.index.sockets;
  }

  /**
   * What a program that goes on for long is kept from, as a command that starts now. Throws SANDBOX_UNAVAILABLE when that can't
   * be known or held.
   */
  async ofProgram(place: Pick<Place, 'workspace' | 'view'>): Promise<HeldMasks> {
    const { index, root } = this.#indexOf(place.workspace);
    const masks = await index.masks(place.view, []);
    const nameless = masks.hidden.find((it) => it.bytes);
    if (nameless)
      throw new ToolError('SANDBOX_UNAVAILABLE', `\`${nameless.path}\` must be masked, and its name is not UTF-8`, {
        suggestion: 'Rename it.',
      });
    return { masks, root, print: `${root} ${await printOf(masks, place.workspace)}` };
  }

  /** What of each workspace is masked more coarsely than its policy says, as far as it was found out. */
  coarse(): CoarseIn[] {
    return [...this.#indexes].flatMap(([workspace, { index }]) => index.coarse.map((it) => ({ workspace, ...it })));
  }

  /** Ends the indexes of other workspaces than these, unless they were asked a short time ago. */
  reap(needed: ReadonlySet<string>): void {
    for (const [workspace, { index }] of this.#indexes) {
      if (needed.has(workspace) || this.#powers.monotonicMs() - index.usedAt < this.#limits.hostIdleMs) continue;
      this.#indexes.delete(workspace);
      this.#warned.delete(workspace);
      void index[Symbol.asyncDispose]();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#indexes.values()].map(({ index }) => index[Symbol.asyncDispose]()));
  }

  /** Of the directory that has the workspace's name now. Throws NOT_FOUND where none has. */
  #indexOf(workspace: string): Index {
    const root = rootOf(workspace);
    if (root === undefined)
      throw new ToolError('NOT_FOUND', `the workspace ${workspace} is no directory any more`, {
        suggestion: 'It was moved or removed: work where it is now (`ringfence workspace add DIR`), or make it again.',
      });
    const known = this.#indexes.get(workspace);
    if (known?.root === root) return known;
    if (known) void known.index[Symbol.asyncDispose]();
    const fresh = { root, index: new WorkspaceIndex(workspace, this.#limits, this.#powers) };
    this.#indexes.set(workspace, fresh);
    return fresh;
  }

  #warnOnce(workspace: string, error: ToolError): void {
    if (this.#warned.get(workspace) === error.message) return;
    this.#warned.set(workspace, error.message);
    const message = 'tier hosts without masks: paths are judged in their tools only, and commands are refused';
    this.#powers.log.warn({ workspace, error }, message);
  }
}

/** Whether the host itself is started with masks: commands have their own, and one without a workspace needs none. */
const hasMasks = (tier: Place['tier']): boolean => tier !== 'execute' && tier !== 'external_api';

/** Which directory has that name, or undefined. One that a running host has mounted keeps its number. */
function rootOf(workspace: string): string | undefined {
  const stat = lstatSync(workspace, { bigint: true, throwIfNoEntry: false });
  return stat?.isDirectory() ? `${stat.dev} ${stat.ino}` : undefined;
}

/** A file that is replaced by another one, as editors save it, leaves the mount that lay on it behind. */
async function printOf({ hidden, readOnly, pinned }: Masks, workspace: string): Promise<string> {
  const paths = [...hidden.map((it) => it.path), ...readOnly, ...pinned];
  // An inode's number is used again at once; when it was made is not.
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
 * What a host's mounts hold: calls that a person said yes to run in it beside others, so that what is only asked about is
 * left to the gateway, which asked, and to the host's own look at the real name. The same object for the same one.
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
 * What the mounts of a host that runs our tools hold. One that sees the workspace read-only needs none for what may not be
 * written. What can't be named in an argument, and the workspace's own entries where they are too many, are left to the
 * tools' look at each path. The same object for the same masks.
 */
function toHostMasks(masks: Masks, tier: Tier): Masks {
  const kind = tier === 'read_only' ? 'read' : 'write';
  const known = hostMasks.get(masks);
  const same = known?.[kind];
  if (same) return same;
  const hidden = masks.hidden.filter((it) => it.bytes === undefined);
  const { readOnly, pinned } = kind === 'read' ? NO_MASKS : masks;
  const fresh = { hidden, readOnly, pinned };
  hostMasks.set(masks, { ...known, [kind]: fresh });
  return fresh;
}
