/** Commands that run in a workspace, and what becomes of what they leave. */
import { ToolError } from '../../base/errors.ts';
import type { Powers } from '../../base/powers.ts';
import type { Masks } from '../../sandbox/masks.ts';
import type { Follower } from '../follower/follower.ts';
import type { Blob } from './blobs.ts';
import type { KnownPaths, LentFolder } from './own-folders.ts';
import type { ItemOwner, Quarantine, QuarantinedItem } from './quarantine.ts';
import type { SingleFile } from './single-files.ts';

/** A command, or the programs that a call left running. */
export interface Run {
  readonly owner: ItemOwner;
  /** Paths that it sees read-only. */
  readonly before: Set<string>;
  readonly items: QuarantinedItem[];
  /** Copies of protected folders that it has. */
  readonly copies: readonly LentFolder[];
  /** Single protected files that it may replace, as they were. */
  readonly singles: Map<string, SingleFile>;
  /** Paths among these that it removed, and that stay. */
  readonly stayed: string[];
  /** Whether a rule keeps a path from being written or deleted. */
  isHeld(path: string): boolean;
  /** Why it was ended. */
  why?: ToolError;
  /** Ends the command. */
  onEnd?(why: ToolError): void;
  /** For programs that go on: whether they still do. */
  isAlive?(): boolean;
  isEnding: boolean;
}

/** A command that is about to start. */
export interface BegunCommand {
  readonly owner: ItemOwner;
  readonly masks: Masks;
  /** Whether it has ended when its call has: only then it gets copies. */
  readonly isForeground: boolean;
  /** Whether a rule keeps a path from being written or deleted. */
  isHeld(path: string): boolean;
  /** Ends it. */
  onEnd(why: ToolError): void;
}

/** What a command left where programs of the person run it. */
export interface LeftBehind {
  readonly moved: readonly QuarantinedItem[];
  /** Paths that it removed in its copies of protected folders, and that are still there. */
  readonly stayed: readonly string[];
}

export interface NewcomersRun extends Disposable {
  readonly masks: Masks;
  /** The command is over: moves what is left, and gives everything that was. Throws why the command had to be ended. */
  end(): Promise<LeftBehind>;
  /** Programs of the command go on while `isAlive` says so. */
  hold(isAlive: () => boolean): void;
}

export interface NewcomersOptions {
  readonly workspace: string;
  readonly follower: Follower;
  readonly quarantine: Quarantine;
  readonly powers: Pick<Powers, 'after' | 'log' | 'monotonicMs' | 'spawn' | 'uuid'>;
  /** Paths in the workspace that programs of the person trust, for when changes were missed. */
  names(): Promise<readonly string[]>;
  /** Finds the paths that have this very text in a commit of the person. */
  knownAmong(texts: KnownTexts, owner: ItemOwner): Promise<KnownPaths>;
  /** Folder for copies of protected folders, which hosts see, too; undefined if there is none that they could reach. */
  copiesPlace(): string | undefined;
  /** Receives what came to be when no call waits for it, but programs of one go on. */
  onItems(items: readonly QuarantinedItem[], owner: ItemOwner): void;
}

/** Files with the hashes of their bytes as git makes them, and the commits in which to look for them. */
export interface KnownTexts {
  readonly commits: readonly string[];
  readonly files: readonly Blob[];
}

export const tooManyNames = (): ToolError =>
  new ToolError('FILE_LIMIT', 'the command made too many files that programs of the person run; it was ended', {
    suggestion: 'Make them in /tmp.',
    details: { enforcedBy: 'daemon' },
  });

export function endRun(run: Run, why: ToolError): void {
  run.why ??= why;
  run.onEnd?.(why);
}

/** Has a command see its copies in place of read-only folders, and single files as they are. */
export function withLent(masks: Masks, { copies, singles }: Pick<Run, 'copies' | 'singles'>): Masks {
  if (copies.length + singles.size === 0) return masks;
  const own = copies.map(({ path, folder }) => ({ path, folder }));
  const lent = new Set([...own.map((it) => it.path), ...singles.keys()]);
  return { ...masks, readOnly: masks.readOnly.filter((it) => !lent.has(it)), own };
}

export const NOTHING_KNOWN: KnownPaths = { known: new Set(), missing: new Set() };

/** Whether a path or a folder above it is among those that a command sees read-only. */
export function isHeldIn(before: ReadonlySet<string>, path: string): boolean {
  for (let at = path; at !== ''; at = at.slice(0, Math.max(0, at.lastIndexOf('/')))) if (before.has(at)) return true;
  return false;
}
