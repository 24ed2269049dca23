/**
 * Writes what a command changed as entries of an undo journal, with what stood there before, so that the call is undone like
 * any other. Written when the command is over, so all entries have one flush.
 */
import { journalRoom, roomIn } from '../../src/base/disk.ts';
import { isGitState } from '../../src/base/paths.ts';
import type { Powers } from '../../src/base/powers.ts';
import type { CommandReport } from '../../src/hosts/shadow/journal-report.ts';
import { codeOf } from '../context/anchor.ts';
import { EMPTY, hashOfTree, isKept, NONE, SMALL_BYTES, sha256 } from '../undo/images.ts';
import { modeImage } from '../undo/journal.ts';
import { type Blob, type Image, type JournalEntry, type Leaf, Spool } from '../undo/spool.ts';
import {
  type Entry,
  type FileEntry,
  gitDirOf,
  isObjectPath,
  isSame,
  type Kept,
  type PathChange,
  parentOf,
  type Why,
  whyNot,
} from './entries.ts';
import type { HeldFile } from './held-files.ts';
import { KeptContents, type KeptContentsOptions } from './kept-contents.ts';
import type { OtherRoot, ShadowTree } from './shadow-tree.ts';

export type { CommandReport } from '../../src/hosts/shadow/journal-report.ts';

export interface CommandJournalOptions extends KeptContentsOptions {
  readonly tree: Pick<ShadowTree, 'ignoredBy'>;
  readonly powers: Pick<Powers, 'monotonicMs'>;
  /** The spool, and the name of the call's journal in it. */
  readonly folder: string;
  readonly key: string;
  /** The permissions of the workspace itself, if they changed. */
  readonly otherRoot: OtherRoot | undefined;
}

/** Writes the journal; undefined if nothing is other than it was. */
export function writeJournal(
  changes: readonly PathChange[],
  options: CommandJournalOptions,
): CommandReport | undefined {
  const changed = changes.filter(({ pre, post }) => !isSame(pre, post));
  using spool = new Spool(options.folder, options.key);
  const journal = new CommandJournal(changed, spool, options);
  try {
    return journal.write();
  } catch (error) {
    if (codeOf(error) === undefined) throw error;
    console.error(error); // The disk is full or failing.
    spool.remove();
    return journal.reportAll('no-room');
  }
}

/** An entry with its content, before it is written. */
interface Draft {
  readonly entry: JournalEntry;
  readonly blobs: readonly Uint8Array[];
}

/** Bytes up to which a file that was held open stands in its entry, not beside it: a data set has thousands. */
const IN_ENTRY_BYTES = 64 * 1024;

/** Permissions that git gives its packs. */
const PACK_MODE = 0o444;

/** Order of the entries; undo begins at the end. */
const ORDER = ['opened', 'gone', 'changed', 'made', 'filled', 'closed'] as const;
type Group = (typeof ORDER)[number];

class CommandJournal {
  readonly #inOrder: readonly PathChange[];
  /** Position of each path. */
  readonly #byPath: Map<string, number>;
  readonly #spool: Spool;
  readonly #options: CommandJournalOptions;
  readonly #missing = new Map<string, Why>();
  /** Objects that are to be put back, with the directories that hold them. */
  readonly #needed = new Set<string>();
  readonly #drafts: Record<Group, Draft[]> = { opened: [], gone: [], changed: [], made: [], filled: [], closed: [] };
  #bytesLeft: number;
  /** Bytes of packs and of files that were held open, which have room of their own. */
  #largeBytesLeft: number;
  readonly #contents: KeptContents;
  /** Time in ms from which on no more open files are copied, since the result of the command waits. */
  readonly #lateMs: number;

  constructor(changed: readonly PathChange[], spool: Spool, options: CommandJournalOptions) {
    const { limits, folder } = options;
    this.#spool = spool;
    this.#options = options;
    this.#contents = new KeptContents(changed, options);
    // As a walk meets them: a directory, then all that is in it.
    const inOrder = changed.toSorted((a, b) => (walkKey(a.path) < walkKey(b.path) ? -1 : 1));
    this.#inOrder = inOrder;
    this.#byPath = new Map(inOrder.map((it, index) => [it.path, index]));
    const room = roomIn(folder, limits);
    this.#bytesLeft = Math.min(limits.journalCallBytesMax, room);
    this.#largeBytesLeft = Math.min(journalRoom(room, limits), room) - this.#bytesLeft;
    this.#lateMs = options.powers.monotonicMs() + limits.shadowEndMs / 2;
  }

  write(): CommandReport | undefined {
    const { limits, otherRoot } = this.#options;
    const left = new Map([...this.#madeRepositories(), ...this.#lostRepositories()]);
    for (const [it, why] of left) this.#missing.set(`${it}/`, why);
    let whole: string | undefined;
    for (const change of this.#inOrder) {
      const { path } = change;
      const gitDir = gitDirOf(path);
      if (gitDir !== undefined && (left.has(gitDir) || (!stays(change) && this.#isSpare(path, gitDir)))) continue;
      if (whole !== undefined && path.startsWith(whole)) continue;
      if (this.#isWhole(change)) whole = `${path}/`;
      this.#draft(change);
    }
    if (otherRoot) this.#draftMode('.', otherRoot.pre, otherRoot.post);
    const all = ORDER.flatMap((it) => this.#drafts[it]);
    for (const { entry } of all.splice(limits.journalPathsMax)) this.#missing.set(entry.path, 'too-many');
    for (const { entry, blobs } of all) this.#spool.write(entry, blobs);
    if (all.length > 0) this.#spool.flush();
    else this.#spool.remove();
    return this.#report(all.map(({ entry }) => entry.path));
  }

  /** The report for a journal that was not written. */
  reportAll(why: Why): CommandReport {
    for (const it of this.#inOrder) this.#miss(it, why);
    return this.#report([]) as CommandReport;
  }

  #report(paths: readonly string[]): CommandReport | undefined {
    const total = this.#missing.size;
    if (paths.length === 0 && total === 0) return undefined;
    const missing = [...this.#missing].map(([path, why]) => ({ path, why }));
    const undo = paths.length === 0 ? 'none' : total === 0 ? 'full' : 'partial';
    return {
      undo,
      bytes: this.#spool.bytes,
      paths,
      missing: missing.slice(0, this.#options.limits.undoMissingMax),
      total,
    };
  }

  /** Repositories that the command made stay whole: their configs and hooks are protected, and no git wants those alone. */
  #madeRepositories(): [gitDir: string, Why][] {
    const made = this.#inOrder.filter(
      ({ path, pre, post }) => !pre && post?.type === 'directory' && gitDirOf(path) === path,
    );
    return made.map(({ path }) => [path, 'protected']);
  }

  /**
   * The repositories of which objects are gone for good: their refs can't be put back, since they would lead nowhere. Objects that are
   * gone from their store, and can be put back, are noted in `#needed`.
   */
  #lostRepositories(): Map<string, Why> {
    const { repositories } = this.#options;
    const lost = new Map<string, Why>();
    let [bytes, packBytes] = [0, 0];
    for (const { path, pre, post } of this.#inOrder) {
      const gitDir = gitDirOf(path);
      if (gitDir === undefined || lost.has(gitDir) || !pre) continue;
      if (path === gitDir && post?.type !== 'directory') lost.set(gitDir, 'git-objects');
      const isGone = isObjectPath(path, gitDir) && !post && pre.type !== 'directory' && !repositories.holds(path);
      if (!isGone) continue;
      const own = this.#objectBytes(path, pre) ?? Number.POSITIVE_INFINITY;
      if (pre.type === 'object') packBytes += own;
      else bytes += own;
      if (bytes > this.#bytesLeft || packBytes > this.#largeBytesLeft) lost.set(gitDir, 'git-objects');
      for (let it = path; it.length > gitDir.length; it = parentOf(it)) this.#needed.add(it);
    }
    return lost;
  }

  /** Bytes of what stood at a path in an object store; undefined if it was not kept. */
  #objectBytes(path: string, pre: Entry): number | undefined {
    if (pre.type === 'object') return this.#options.repositories.packFile(path)?.bytes;
    return pre.type === 'file' && 'copy' in pre.kept ? pre.bytes : undefined;
  }

  /** Whether a path in an object store is new, or git can do without it. */
  #isSpare(path: string, gitDir: string): boolean {
    return isObjectPath(path, gitDir) && !this.#needed.has(path) && !OBJECT_FOLDER.test(path);
  }

  /** Whether a change is one entry with all that was or is below: a directory that went, or came in the place of a file. */
  #isWhole({ pre, post }: PathChange): boolean {
    return (pre?.type === 'directory') !== (post?.type === 'directory') && pre !== undefined;
  }

  #draft(change: PathChange): void {
    const { path, pre, post } = change;
    const isDirectory = (pre ?? post)?.type === 'directory';
    const ignored = this.#options.tree.ignoredBy(path, isDirectory);
    if (ignored !== undefined && !pre) return void this.#missing.set(ignored, 'ignored');
    const why = whyNot(pre) ?? whyNot(post) ?? whyOfMode(pre, post);
    if (why) return this.#miss(change, why);
    if (post?.type === 'directory' && !pre) {
      const made: Image = { type: 'directory', mode: post.mode & 0o777, hash: '' };
      return this.#put('made', { kind: 'mkdir', path, pre: NONE, post: made });
    }
    if (pre?.type === 'directory' && post?.type === 'directory') return this.#draftMode(path, pre.mode, post.mode);
    const blobs: Buffer[] = [];
    const before = this.#image(path, pre, blobs);
    if (before.type !== 'unknown' && !isKept(before)) return this.#miss(change, 'no-room');
    if (before.type === 'unknown') return this.#miss(change, this.#whyOf(pre));
    const after = this.#postImage(change, blobs);
    if (after.type === 'unknown') return this.#miss(change, this.#whyOf(post));
    const kind = !pre ? 'create' : post ? 'modify' : 'delete';
    const yields = ignored !== undefined && { yields: true };
    this.#put(!pre ? 'filled' : post ? 'changed' : 'gone', { kind, path, pre: before, post: after, ...yields }, blobs);
  }

  #draftMode(path: string, before: number, after: number): void {
    if ((before | after) & 0o7000) return void this.#missing.set(path, 'special');
    // If the command took the right to write to or enter a directory, undo restores that right before the files in it.
    const group = (after & 0o300) === 0o300 ? 'opened' : 'closed';
    this.#put(group, { kind: 'chmod', path, pre: modeImage(before), post: modeImage(after) });
  }

  #put(group: Group, entry: JournalEntry, blobs: readonly Uint8Array[] = []): void {
    this.#drafts[group].push({ entry, blobs });
  }

  #miss({ path, pre, post }: PathChange, why: Why): void {
    const isTree = [pre, post].some((it) => it?.type === 'directory' || (it?.type === 'unknown' && it.isTree));
    // A name that the policy hides is not told.
    this.#missing.set(why === 'policy' ? '.' : isTree ? `${path}/` : path, why);
  }

  #whyOf(entry: Entry | undefined): Why {
    if (entry?.type !== 'file') return 'unreadable';
    const { kept, bytes } = entry;
    if (!('why' in kept)) return bytes > this.#bytesLeft ? 'no-room' : 'unreadable';
    if (!this.#contents.unchanged(kept)) return kept.why;
    return this.#isLate ? 'late' : 'no-room';
  }

  /** The image of what stood at a path, with its content in `blobs`. */
  #image(path: string, entry: Entry | undefined, blobs: Buffer[]): Image {
    if (!entry) return NONE;
    if (entry.type === 'directory') return this.#tree(path, entry.mode, blobs);
    return (this.#leaf(path, entry, blobs) as Exclude<Leaf, { type: 'directory' }> | undefined) ?? { type: 'unknown' };
  }

  /** A directory that is gone, as it was; what of it is not kept is told, and left out. */
  #tree(top: string, mode: number, blobs: Buffer[]): Image {
    const entries: [string, Leaf][] = [];
    for (const change of this.#below(top)) {
      const { path, pre } = change;
      if (!pre) continue;
      const gitDir = gitDirOf(path);
      if (gitDir !== undefined && (gitDirOf(top) === undefined || this.#isSpare(path, gitDir))) continue;
      const why = whyNot(pre);
      const leaf = why ? undefined : this.#leaf(path, pre, blobs);
      if (leaf) entries.push([path.slice(top.length + 1), leaf]);
      else this.#miss(change, why ?? this.#whyOf(pre));
    }
    return { type: 'directory', mode: mode & 0o777, hash: hashOfTree(entries), entries };
  }

  /** The changes below a directory, which follow its own. */
  *#below(top: string): Generator<PathChange> {
    for (let at = (this.#byPath.get(top) as number) + 1; this.#inOrder[at]?.path.startsWith(`${top}/`); at++)
      yield this.#inOrder[at] as PathChange;
  }

  #leaf(path: string, entry: Entry, blobs: Buffer[]): Leaf | undefined {
    if (entry.type === 'symlink') return entry;
    if (entry.type === 'directory') return { type: 'directory', mode: entry.mode & 0o777 };
    if (entry.type === 'object') return this.#packLeaf(path);
    const inEntryMax = Math.min(IN_ENTRY_BYTES, this.#bytesLeft);
    if (entry.type === 'file' && 'why' in entry.kept && entry.bytes > inEntryMax) return this.#heldLeaf(entry);
    const content = entry.type === 'file' && entry.bytes <= this.#bytesLeft ? this.#contents.of(entry) : undefined;
    if (entry.type !== 'file' || !content) return undefined;
    this.#bytesLeft -= content.length;
    const blob = this.#keep(content, blobs);
    return { type: 'file', mode: entry.mode & 0o777, bytes: content.length, hash: sha256(content), blob };
  }

  /** A pack is copied in pieces, since it may be larger than our memory. */
  #packLeaf(path: string): Leaf | undefined {
    const pack = this.#options.repositories.packFile(path);
    if (!pack || pack.bytes > this.#largeBytesLeft) return undefined;
    this.#largeBytesLeft -= pack.bytes;
    return this.#largeLeaf(pack.read(), { mode: PACK_MODE, bytes: pack.bytes });
  }

  #heldLeaf({ kept, mode }: FileEntry): Leaf | undefined {
    const held = this.#readable(kept);
    if (!held) return undefined;
    this.#largeBytesLeft -= held.bytes;
    return this.#largeLeaf(this.#options.held.read(held), { mode: mode & 0o777, bytes: held.bytes });
  }

  /** The open file of an entry, if it was not changed in place and there is room for it. */
  #readable(kept: Kept): HeldFile | undefined {
    const held = this.#contents.unchanged(kept);
    return held && held.bytes <= this.#largeBytesLeft && !this.#isLate ? held : undefined;
  }

  get #isLate(): boolean {
    return this.#options.powers.monotonicMs() >= this.#lateMs;
  }

  #largeLeaf(chunks: Iterable<Uint8Array>, { mode, bytes }: { mode: number; bytes: number }): Leaf {
    const { file, hash } = this.#spool.keepHashed(chunks);
    return { type: 'file', mode, bytes, hash, blob: { file, bytes } };
  }

  #keep(content: Buffer, blobs: Buffer[]): Blob {
    const bytes = content.length;
    if (bytes > SMALL_BYTES) return { file: this.#spool.keepChunks([content]).file, bytes };
    const at = blobs.reduce((sum, it) => sum + it.length, 0);
    blobs.push(content);
    return { at, bytes };
  }

  /** The image of what the command left at a path. */
  #postImage({ path, pre, post }: PathChange, blobs: Buffer[]): Image {
    if (!post) return NONE;
    if (post.type === 'symlink') return post;
    if (post.type === 'directory') return this.#postTree(path, post.mode);
    if (post.type !== 'file') return { type: 'unknown' };
    const hash = this.#postHash(post);
    if (hash === undefined) return { type: 'unknown' };
    const base = { type: 'file', mode: post.mode & 0o777, bytes: post.bytes, hash } as const;
    // A later merge needs both contents.
    const isMergeable =
      pre?.type === 'file' && post.bytes <= this.#options.limits.journalTextBytesMax && !isGitState(path);
    const content = isMergeable && post.bytes <= this.#bytesLeft ? this.#contents.of(post) : undefined;
    if (!content) return base;
    this.#bytesLeft -= post.bytes;
    return { ...base, blob: this.#keep(content, blobs) };
  }

  #postHash(post: FileEntry): string | undefined {
    if ('hash' in post.kept) return post.kept.hash;
    if (post.hash !== undefined) return post.hash;
    if ('why' in post.kept) {
      const held = post.bytes <= this.#options.limits.journalCallBytesMax && this.#readable(post.kept);
      return held ? this.#options.held.hashOf(held) : undefined;
    }
    const content = this.#contents.of(post);
    return content && sha256(content);
  }

  /** A directory that came in the place of something else. */
  #postTree(top: string, mode: number): Image {
    const entries: [string, Leaf][] = [];
    for (const { path, post } of this.#below(top)) {
      if (!post) continue;
      const leaf = this.#postLeaf(post);
      if (!leaf) return { type: 'unknown' };
      entries.push([path.slice(top.length + 1), leaf]);
    }
    if (entries.length === 0) return { ...EMPTY, mode: mode & 0o777 } as Image;
    return { type: 'directory', mode: mode & 0o777, hash: hashOfTree(entries) };
  }

  #postLeaf(post: Entry): Leaf | undefined {
    if (whyNot(post)) return undefined;
    if (post.type === 'symlink') return post;
    if (post.type === 'directory') return { type: 'directory', mode: post.mode & 0o777 };
    const hash = post.type === 'file' ? this.#postHash(post) : undefined;
    if (post.type !== 'file' || hash === undefined) return undefined;
    return { type: 'file', mode: post.mode & 0o777, bytes: post.bytes, hash };
  }
}

/** Whether something stands there before and after. */
const stays = ({ pre, post }: PathChange): boolean => pre !== undefined && post !== undefined;

/** Why other permissions alone don't go back: an entry for a file needs its content. */
const whyOfMode = (pre: Entry | undefined, post: Entry | undefined): Why | undefined =>
  pre?.type === 'file' && 'why' in pre.kept && post?.type === 'file' && post.stamp === pre.stamp
    ? pre.kept.why
    : undefined;

/** Paths of an object store that git does without, and that go back all the same. */
const OBJECT_FOLDER = /\/objects\/(?:pack$|info(?:\/|$))/;

/** Sorts a directory before all that is in it, and that before the next name. */
const walkKey = (path: string): string => path.replaceAll('/', '\0');
