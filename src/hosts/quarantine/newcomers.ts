/**
 * Protected names and unsafe git directories that come to be in a workspace while a command runs there: each is moved to
 * the quarantine within half a second, or when the command ends. What was there when a command began is read-only in its
 * sandbox, or a copy or single file of own-folders.ts and single-files.ts, so another change of it is the person's and is
 * left alone.
 */
import type { ToolError } from '../../base/errors.ts';
import type { Timer } from '../../base/powers.ts';
import { isProtectedName, protectedPart } from '../../base/protected-names.ts';
import { CAME, type Change } from '../follower/records.ts';
import { type Blob, blobsOf } from './blobs.ts';
import {
  type BegunCommand,
  endRun,
  isHeldIn,
  type NewcomersOptions,
  type NewcomersRun,
  NOTHING_KNOWN,
  type Run,
  tooManyNames,
  withLent,
} from './commands.ts';
import { GitDirectories, type Unsafe } from './git-directories.ts';
import { type KnownPaths, OwnFolders } from './own-folders.ts';
import { PersonRefs } from './person-refs.ts';
import { innerOf, removeEmpty, unitOf } from './places.ts';
import type { ItemOwner, QuarantinedItem } from './quarantine.ts';
import { type SingleFile, SingleFiles } from './single-files.ts';

/** A path is moved when nothing was written there for so long, so that archives and checkouts end in peace … */
const QUIET_MS = 150;
/** … or when it is so old: an open editor reads it at once. */
const OLD_MS = 500;
const LOOK_MS = 50;
/** Paths that one workspace may have in the making; a command that makes more is ended. */
const PENDING_MAX = 2_000;
/** Paths that one command may leave in its copies. */
const HELD_MAX = 200;
/** Moves in a row before other work gets its turn. */
const MOVES_A_TURN = 20;
/** Interval of looks at whether programs that a call left running have ended. */
const HELD_LOOK_MS = 1_000;

interface Pending {
  readonly item: QuarantinedItem;
  readonly since: number;
  last: number;
}

export class Newcomers implements Disposable {
  readonly #options: NewcomersOptions;
  readonly #runs = new Set<Run>();
  readonly #pending = new Map<string, Pending>();
  /** Paths that our own tools write, with how many do. */
  readonly #expected = new Map<string, number>();
  readonly #unlisten: () => void;
  #timer: Timer | undefined;
  #moving: Promise<void> = Promise.resolve();
  #missed = false;
  readonly #refs: PersonRefs;
  readonly #git: GitDirectories;
  readonly #own: OwnFolders;
  readonly #single: SingleFiles;
  #gitMoving: Promise<void> = Promise.resolve();

  constructor(options: NewcomersOptions) {
    this.#options = options;
    this.#git = new GitDirectories({
      ...options,
      onUnsafe: (it) => this.#takeUnsafe(it),
      onFlood: () => this.#flood(),
      areHeld: () => [...this.#runs].every((it) => it.isAlive),
    });
    this.#own = new OwnFolders({ ...options, place: () => options.copiesPlace() });
    this.#single = new SingleFiles(options.workspace, options.powers);
    this.#refs = new PersonRefs(options.workspace, options.quarantine.folder);
    this.#unlisten = options.follower.listen({
      onChanges: (changes) => this.#take(changes),
      onLost: () => this.#miss(),
      onBeyond: () => this.#miss(),
      onReady: () => void this.#sweep(),
    });
  }

  /** Throws APPROVAL_REQUIRED for a session whose commands made too many git directories that name programs. */
  async begin(begun: BegunCommand): Promise<NewcomersRun> {
    const { owner, masks, isForeground, isHeld, onEnd } = begun;
    this.#options.quarantine.assertTrusted(owner);
    const readOnly = masks.readOnly.filter((it) => !isHeld(it));
    if (this.#runs.size === 0) this.#refs.begin(this.#isFollowed);
    const { commits } = this.#refs;
    const singles = await this.#single.lend(isForeground ? readOnly : [], commits, (it) => this.#knownOf(owner, it));
    const copies = isForeground ? this.#own.lend({ ...masks, readOnly }) : [];
    const before = new Set(masks.readOnly.filter((it) => !singles.has(it)));
    const run: Run = { owner, before, items: [], copies, singles, stayed: [], isHeld, onEnd, isEnding: false };
    if (!this.#isFollowed) this.#missed = true;
    this.#runs.add(run);
    return {
      masks: withLent(masks, run),
      end: async () => {
        await this.#end(run);
        if (!run.why) return { moved: run.items, stayed: run.stayed };
        this.#tell(run);
        throw run.why;
      },
      hold: (isAlive) => this.#hold(run, isAlive),
      [Symbol.dispose]: () => {
        // The command's host died, or the command was not started: nobody will call `end`.
        if (this.#runs.has(run)) void this.#endUnheard(run);
      },
    };
  }

  /** Leaves paths alone, with what is in them, until the result is called: tools of ours write them. */
  expect(paths: readonly string[]): () => Promise<void> {
    for (const it of paths) this.#expected.set(it, (this.#expected.get(it) ?? 0) + 1);
    return async () => {
      await this.#options.follower.settled();
      for (const it of paths) {
        this.#git.accept(it);
        const now = this.#singleAt(it) && this.#single.read(it);
        if (now) this.#expose(now);
        const left = (this.#expected.get(it) ?? 1) - 1;
        if (left === 0) this.#expected.delete(it);
        else this.#expected.set(it, left);
      }
    };
  }

  [Symbol.dispose](): void {
    this.#unlisten();
    this.#timer?.cancel();
    this.#git.clear();
    this.#runs.clear();
  }

  async #end(run: Run): Promise<void> {
    run.isEnding = true;
    const isSettled = await this.#options.follower.settled();
    if (!isSettled || this.#missed) await this.#sweep();
    await this.#git.lookAtAll();
    await this.#gitMoving;
    this.#noteSingles(run);
    await this.#moveDue(0);
    run.stayed.push(...(await this.#single.endOf(run.singles.values(), (it) => this.#knownOf(run.owner, it))));
    await this.#endCopies(run);
    this.#runs.delete(run);
    if (this.#runs.size === 0) {
      this.#refs.end(this.#isFollowed);
      this.#git.clear();
    }
    for (const { path, isNameless } of run.items)
      if (!isNameless) removeEmpty(this.#options.workspace, protectedPart(path) ?? path);
  }

  /** Takes over what a command wrote in its copies, as far as it may be; the rest goes to the quarantine. */
  async #endCopies(run: Run): Promise<void> {
    const { owner, copies, isHeld } = run;
    if (copies.length === 0) return;
    const { workspace, quarantine } = this.#options;
    const changes = this.#own.changesOf(copies);
    if (!changes) endRun(run, tooManyNames());
    else if (changes.written.length + changes.removed.length > 0) {
      const known = await this.#knownOf(owner, (hash) => this.#own.blobsOf(changes, hash));
      const left = this.#own.takeOver(copies, changes, { ...known, isHeld });
      run.stayed.push(...left.removed);
      for (const it of left.written.slice(0, HELD_MAX)) run.items.push(quarantine.hold(workspace, it, owner));
      if (left.written.length > HELD_MAX) endRun(run, tooManyNames());
    }
    this.#own.giveBack(copies);
  }

  async #knownOf(owner: ItemOwner, toFiles: (hash: 'sha1' | 'sha256') => readonly Blob[]): Promise<KnownPaths> {
    const { commits } = this.#refs;
    const files = toFiles(commits[0]?.length === 64 ? 'sha256' : 'sha1');
    if (commits.length === 0 || files.length === 0) return NOTHING_KNOWN;
    return this.#options.knownAmong({ commits, files }, owner);
  }

  get #isFollowed(): boolean {
    return this.#options.follower.state === 'following';
  }

  #hold(ended: Run, isAlive: () => boolean): void {
    const run: Run = { ...ended, items: [], copies: [], stayed: [], isAlive, isEnding: false };
    delete run.onEnd;
    this.#runs.add(run);
    const look = () => {
      if (!this.#runs.has(run)) return;
      this.#noteSingles(run);
      if (isAlive()) this.#options.powers.after(HELD_LOOK_MS, look);
      // After another look, the follower has reported the last changes of these programs.
      else this.#options.powers.after(HELD_LOOK_MS, () => void this.#endUnheard(run));
    };
    look();
  }

  /** Ends a run whose call has no more result to name items in. */
  async #endUnheard(run: Run): Promise<void> {
    await this.#end(run);
    this.#tell(run);
  }

  #tell(run: Run): void {
    const items = run.items.splice(0);
    if (items.length > 0) this.#options.onItems(items, run.owner);
  }

  #miss(): void {
    if (this.#runs.size > 0) this.#missed = true;
  }

  /** Looks for names where changes were missed. */
  async #sweep(): Promise<void> {
    if (!this.#missed || this.#runs.size === 0) return;
    this.#missed = !this.#isFollowed;
    const names = await this.#options.names().catch((error: unknown) => {
      this.#options.powers.log.error({ error }, 'protected names that a command made can not be looked for');
      return [];
    });
    for (const it of names) {
      const at = it.lastIndexOf('/');
      this.#git.note({ folder: it.slice(0, Math.max(0, at)), name: it.slice(at + 1) });
      if (isProtectedName(it)) this.#note(it, false);
    }
  }

  #take(changes: readonly Change[]): void {
    for (const { folder, name } of changes) this.#refs.note(folder, name);
    if (this.#runs.size === 0) return;
    for (const { kind, folder, name, bytes } of changes) {
      this.#git.note({ folder, name, bytes });
      const text = folder === '' ? name : `${folder}/${name}`;
      const part = protectedPart(text);
      if (part === undefined) continue;
      const path = unitOf(bytes?.toString('latin1') ?? text, part);
      const known = this.#pending.get(path);
      if (known) known.last = this.#options.powers.monotonicMs();
      else if (kind & CAME || this.#singleAt(text)) this.#note(path, bytes !== undefined);
    }
    this.#git.lookAtNew();
  }

  /** Moves what is unsafe in a git directory, without waiting for other paths or for what commits hold. */
  #takeUnsafe({ path, isNameless }: Unsafe): void {
    const run = this.#runOf({ path });
    if (!run || this.#isExpected(path)) return;
    const item = this.#options.quarantine.note(this.#options.workspace, path, { isNameless, owner: run.owner });
    this.#gitMoving = this.#gitMoving.then(async () => void (await this.#takeOne(item)));
  }

  #flood(): void {
    for (const it of this.#runs) endRun(it, tooManyNames());
    this.#missed = true;
  }

  #note(path: string, isNameless: boolean): void {
    const run = this.#runOf({ path });
    if (!run || this.#isExpected(path) || this.#pending.has(path)) return;
    if (this.#pending.size >= PENDING_MAX) {
      this.#flood();
      return;
    }
    const { workspace, quarantine, powers } = this.#options;
    const now = powers.monotonicMs();
    this.#pending.set(path, {
      item: quarantine.note(workspace, path, { isNameless, owner: run.owner }),
      since: now,
      last: now,
    });
    this.#lookLater();
  }

  #isExpected(path: string): boolean {
    for (let at = path; at !== ''; at = at.slice(0, Math.max(0, at.lastIndexOf('/'))))
      if (this.#expected.has(at)) return true;
    return [...this.#expected.keys()].some((it) => it.startsWith(`${path}/`));
  }

  #lookLater(): void {
    this.#timer ??= this.#options.powers.after(LOOK_MS, () => {
      this.#timer = undefined;
      void this.#moveDue(QUIET_MS);
    });
  }

  /** Moves what was quiet for so long, or is old, one after the other. */
  #moveDue(quietMs: number): Promise<void> {
    this.#moving = this.#moving.then(async () => {
      for (let due = this.#takeDue(quietMs); due.length > 0; due = this.#takeDue(quietMs)) await this.#moveAll(due);
      if (this.#pending.size > 0) this.#lookLater();
      for (const run of this.#runs) if (run.isAlive && !run.isEnding) this.#tell(run);
    });
    return this.#moving;
  }

  #takeDue(quietMs: number): QuarantinedItem[] {
    const now = this.#options.powers.monotonicMs();
    const due = [...this.#pending].filter(([, it]) => now - it.last >= quietMs || now - it.since >= OLD_MS);
    const turn = due.slice(0, MOVES_A_TURN);
    for (const [path] of turn) this.#pending.delete(path);
    return turn.map(([, { item }]) => item);
  }

  async #moveAll(items: readonly QuarantinedItem[]): Promise<void> {
    const { quarantine } = this.#options;
    const single: QuarantinedItem[] = [];
    for (const item of items) {
      const was = this.#singleAt(item.path);
      if (was && this.#single.isAsItWas(was)) quarantine.drop(item);
      else if (!this.#unpack(item)) single.push(item);
    }
    const known = await this.#knownAmong(single);
    for (const item of single) {
      const was = this.#singleAt(item.path);
      const now = was && known.has(item.path) ? this.#single.read(item.path) : undefined;
      if (known.has(item.path) && (!was || now)) quarantine.drop(item);
      else if ((await this.#takeOne(item)) && was) this.#putBack(item, was);
      if (now) this.#expose(now);
    }
  }

  #singleAt(path: string): SingleFile | undefined {
    for (const { singles } of this.#runs) if (singles.has(path)) return singles.get(path);
    return undefined;
  }

  #noteSingles({ singles }: Run): void {
    for (const path of this.#single.changedAmong(singles.values())) this.#note(path, false);
  }

  /** Puts the text of the person back, in whose place another one was moved away. */
  #putBack(item: QuarantinedItem, was: SingleFile): void {
    const print = this.#single.isThere(was.path) ? undefined : this.#single.restore(was);
    if (print === undefined) return;
    this.#options.quarantine.setOver(item, print);
    this.#expose({ ...was, print });
  }

  /** A single file was replaced, by which sandboxes lose the mount that lies on it: whatever runs may write the new one. */
  #expose(file: SingleFile): void {
    for (const { before, singles } of this.#runs) {
      before.delete(file.path);
      singles.set(file.path, file);
    }
  }

  /** Moves a path away; false if nothing is there any more. */
  async #takeOne(item: QuarantinedItem): Promise<boolean> {
    const { quarantine, powers } = this.#options;
    try {
      if (!(await quarantine.take(item))) return false;
    } catch (error) {
      powers.log.error({ error, path: item.path }, 'what a command left was not moved away');
      return false;
    }
    const run = this.#runOf(item);
    run?.items.push(item);
    if (protectedPart(item.path) !== undefined || !run) return true;
    try {
      quarantine.distrust(item);
    } catch (error) {
      endRun(run, error as ToolError);
    }
    return true;
  }

  /** Paths of which each file has this very text in a commit of the person. */
  async #knownAmong(items: readonly QuarantinedItem[]): Promise<ReadonlySet<string>> {
    const run = items[0] && this.#runOf(items[0]);
    if (!run) return new Set();
    let all: { path: string; files: Blob[] }[] = [];
    const { known } = await this.#knownOf(run.owner, (hash) => {
      all = items.map((it) => ({
        path: it.path,
        files: it.isNameless ? [] : blobsOf(this.#options.workspace, it.path, hash),
      }));
      return all.flatMap((it) => it.files);
    });
    const isKnown = (it: (typeof all)[number]) => it.files.length > 0 && it.files.every(({ path }) => known.has(path));
    return new Set(all.filter(isKnown).map((it) => it.path));
  }

  /** Replaces a protected folder by the names in it, of which some run nothing; false for anything else. */
  #unpack(item: QuarantinedItem): boolean {
    const { workspace, quarantine } = this.#options;
    const inside = item.isNameless ? undefined : innerOf(workspace, item.path);
    if (!inside) return false;
    quarantine.drop(item);
    for (const name of inside) if (protectedPart(`${item.path}/${name}`)) this.#note(`${item.path}/${name}`, false);
    return true;
  }

  /** The run that may have written a path, and is told of it. */
  #runOf({ owner, path }: { readonly owner?: ItemOwner; readonly path: string }): Run | undefined {
    const all = [...this.#runs].filter((it) => !isHeldIn(it.before, path));
    return all.find((it) => it.owner.callId === owner?.callId) ?? all[0];
  }
}
