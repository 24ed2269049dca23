/**
 * Follows the tree of one workspace: a process of native/follow.c, whose end never is the daemon's. While it does not
 * follow everything, its listeners have to look for changes themselves. docs/decisions/0031-one-follower.md says why.
 */
import type { ChildProcessByStdio, SpawnOptions } from 'node:child_process';
import type { Readable, Writable } from 'node:stream';
import type { Limits } from '../../base/limits.ts';
import { nativeProgram } from '../../base/native-programs.ts';
import { type Powers, settlesWithin } from '../../base/powers.ts';
import { textAt } from '../../base/quiet/reads.ts';
import { type Beyond, type Change, type FollowRecord, FollowRecords } from './records.ts';
import { isShared } from './shared.ts';
import type { WalkMarks } from './walk-marks.ts';

/**
 * `starting`: folders are still being read. `partial`: some are beyond the bounds, and nothing is known of them.
 * `ended`: the process can't be had, or has ended.
 */
export type FollowerState = 'starting' | 'following' | 'partial' | 'ended';

export interface FollowerListener {
  /** Names that changed, in their order, some at a time. */
  onChanges?(changes: readonly Change[]): void;
  /** Changes are missing from here on, until `onReady`. */
  onLost?(): void;
  /** From here on all changes are given, if the state is `following`. */
  onReady?(): void;
  /** A folder came to be that is not followed, where all were before. */
  onBeyond?(why: Beyond): void;
}

export interface FollowerOptions {
  /** Absolute, without links. */
  readonly workspace: string;
  readonly limits: Pick<Limits, 'watchedDirectoriesMax' | 'watchAnswerMs'>;
  readonly powers: Pick<Powers, 'after' | 'log' | 'monotonicMs' | 'spawn'>;
  /** How many of the system's watches it may take. */
  watchesLeft(): number;
  /** Tells whether daemons have died at the workspace. */
  readonly walks?: WalkMarks | undefined;
}

/** Why a workspace is not wholly followed: a bound, the follower's end, the deaths of two daemons at it, or other machines that change it. */
export type Unfollowed = Beyond | 'ended' | 'deaths' | 'shared';

type FollowProcess = ChildProcessByStdio<Writable, Readable, null>;

/** Pause before a process that ended, or that met a bound, is started anew. */
const RETRY_MS = 60_000;
/** Time in which a tree is read before others do without it; 20 000 folders take 0.2 s. */
const READY_MS = 2_000;

export class Follower implements Disposable {
  readonly #options: FollowerOptions;
  readonly #listeners = new Set<FollowerListener>();
  #child: FollowProcess | undefined;
  #state: FollowerState = 'ended';
  #beyond: Beyond | undefined;
  #folders = 0;
  #startedAt = -Infinity;
  /** Settles when everything up to its question was given; true if nothing is missing. */
  #answer: PromiseWithResolvers<boolean> | undefined;
  #nextAnswer: PromiseWithResolvers<boolean> | undefined;
  #ready = Promise.withResolvers<void>();
  #isClosed = false;
  /** Whether the first walk of the workspace is marked. */
  #isMarked = false;
  #avoided: 'deaths' | 'shared' | undefined;

  constructor(options: FollowerOptions) {
    this.#options = options;
    this.#ready.resolve();
  }

  get state(): FollowerState {
    return this.#state;
  }

  /** Which bound was met, if the state is `partial`. */
  get beyond(): Beyond | undefined {
    return this.#beyond;
  }

  /** Why not all changes are given; undefined if they are, or if that is not known yet. */
  get unfollowed(): Unfollowed | undefined {
    if (this.#avoided) return this.#avoided;
    if (this.#state === 'partial') return this.#beyond;
    return this.#state === 'ended' && this.#startedAt > -Infinity ? 'ended' : undefined;
  }

  get pid(): number | undefined {
    return this.#child?.pid;
  }

  /** Folders that are watched. */
  get folders(): number {
    return this.#folders;
  }

  /** Calls a listener from now on, until the result is called. */
  listen(listener: FollowerListener): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Starts the process if it is not there; resolves when all folders are followed, it can't be had, or it takes too long. */
  async start(): Promise<void> {
    this.#startAgain();
    await settlesWithin(this.#ready.promise, READY_MS, this.#options.powers);
  }

  /** The first walk of the workspace is over, so that a later death of the daemon is not due to it. */
  endWalk(): void {
    if (this.#isMarked) this.#options.walks?.end(this.#options.workspace);
    this.#isMarked = false;
  }

  /**
   * Resolves when every change of before was given to the listeners: true if none is missing, false if changes have to
   * be looked for.
   */
  async settled(): Promise<boolean> {
    this.#startAgain();
    if (this.#state !== 'following') return false;
    const { limits, powers } = this.#options;
    const answer = this.#ask();
    return (await settlesWithin(answer, limits.watchAnswerMs, powers)) && (await answer) && this.#state === 'following';
  }

  [Symbol.dispose](): void {
    this.#isClosed = true;
    this.endWalk();
    this.#child?.kill('SIGKILL');
    this.#end();
  }

  /** Asks once for all that ask in the meantime, since an answer to an earlier question says nothing of later changes. */
  #ask(): Promise<boolean> {
    if (this.#answer) {
      this.#nextAnswer ??= Promise.withResolvers();
      return this.#nextAnswer.promise;
    }
    this.#answer = Promise.withResolvers();
    this.#child?.stdin.write('?');
    return this.#answer.promise;
  }

  #startAgain(): void {
    const { powers, workspace, limits, watchesLeft } = this.#options;
    const isGood = this.#state === 'following' || this.#state === 'starting';
    if (this.#isClosed || this.#avoided || (isGood && this.#child) || powers.monotonicMs() - this.#startedAt < RETRY_MS)
      return;
    if (this.#startedAt === -Infinity && !this.#beginWalk()) return;
    this.#child?.kill('SIGKILL');
    this.#end();
    this.#startedAt = powers.monotonicMs();
    this.#state = 'starting';
    this.#beyond = undefined;
    this.#ready = Promise.withResolvers();
    const max = Math.max(1, Math.min(limits.watchedDirectoriesMax, watchesLeft()));
    const options: SpawnOptions = { cwd: workspace, env: {}, stdio: ['pipe', 'pipe', 'ignore'] };
    const child = powers.spawn(nativeProgram('follow'), [`${max}`], options) as FollowProcess;
    this.#child = child;
    const records = new FollowRecords();
    child.stdout.on('data', (chunk: Buffer) => {
      if (this.#child === child) this.#take(records, chunk);
    });
    child.stdin.on('error', () => {}); // EPIPE: its end is seen below.
    const onEnd = (about: object) => {
      if (this.#child !== child) return;
      powers.log.warn({ workspace, ...about }, 'the follower of the workspace ended; changes are looked for instead');
      this.#end();
    };
    child.once('error', (error) => onEnd({ error }));
    child.once('exit', (code, signal) => onEnd({ pid: child.pid, code, signal }));
    child.unref();
  }

  #beginWalk(): boolean {
    const { walks, workspace, powers } = this.#options;
    const isOfOthers = isShared(workspace);
    this.#isMarked = !isOfOthers && (walks?.begin(workspace) ?? true);
    if (!this.#isMarked) this.#avoided = isOfOthers ? 'shared' : 'deaths';
    if (this.#avoided)
      powers.log.warn(
        { workspace, why: this.#avoided },
        'the workspace is not followed; changes are looked for instead',
      );
    return this.#isMarked;
  }

  #take(records: FollowRecords, chunk: Buffer): void {
    let changes: Change[] = [];
    const give = () => {
      if (changes.length > 0) for (const it of this.#listeners) it.onChanges?.(changes);
      changes = [];
    };
    try {
      for (const record of records.push(chunk)) {
        if ('change' in record) {
          changes.push(record.change);
          continue;
        }
        give();
        this.#takeNote(record);
      }
      give();
    } catch (error) {
      this.#options.powers.log.error({ error }, 'the follower of a workspace sent what is no record; ending it');
      this.#child?.kill('SIGKILL');
      this.#end();
    }
  }

  #takeNote(record: Exclude<FollowRecord, { change: unknown }>): void {
    if ('answered' in record) this.#takeAnswer(record.answered.folders);
    else if ('ready' in record) this.#takeReady(record.ready.folders);
    else if ('lost' in record) {
      this.#state = 'starting';
      this.#ready = Promise.withResolvers();
      for (const it of this.#listeners) it.onLost?.();
    } else if ('beyond' in record) this.#takeBeyond(record.beyond);
    else this.#options.powers.log.warn({ folder: record.unreadable }, 'a folder of the workspace can not be followed');
  }

  #takeReady(folders: number): void {
    const { powers, workspace } = this.#options;
    this.#folders = folders;
    this.#state = this.#beyond ? 'partial' : 'following';
    const ms = Math.round(powers.monotonicMs() - this.#startedAt);
    const about = { workspace, folders, ms, beyond: this.#beyond };
    powers.log[this.#beyond ? 'warn' : 'info'](
      about,
      this.#beyond ? 'workspace not wholly followed' : 'workspace followed',
    );
    this.#ready.resolve();
    for (const it of this.#listeners) it.onReady?.();
  }

  #takeBeyond(why: Beyond): void {
    const wasFollowing = this.#state === 'following';
    this.#beyond ??= why;
    if (!wasFollowing) return;
    this.#state = 'partial';
    this.#options.powers.log.warn({ workspace: this.#options.workspace, beyond: why }, 'workspace not wholly followed');
    for (const it of this.#listeners) it.onBeyond?.(why);
  }

  #takeAnswer(folders: number): void {
    this.#folders = folders;
    const [answer, next] = [this.#answer, this.#nextAnswer];
    this.#answer = next;
    this.#nextAnswer = undefined;
    if (next) this.#child?.stdin.write('?');
    answer?.resolve(true);
  }

  #end(): void {
    const hadStarted = this.#child !== undefined;
    this.#child = undefined;
    this.#state = 'ended';
    this.#folders = 0;
    for (const it of [this.#answer, this.#nextAnswer]) it?.resolve(false);
    this.#answer = undefined;
    this.#nextAnswer = undefined;
    this.#ready.resolve();
    if (hadStarted) for (const it of this.#listeners) it.onLost?.();
  }
}

/** Half of the watches that the user may have: the person's own programs need the others. */
export function watchesOfUser(): number {
  const most = textAt('/proc/sys/fs/inotify/max_user_watches') ?? 8192; // What older kernels allow.
  return Math.floor(Number(most) / 2);
}
