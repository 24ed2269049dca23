/**
 * The gateway's end of the socket to the thread of a write host that knows what its workspace held before a command. A
 * command never waits for it longer than its bounds say, and runs without undo if it does not answer.
 */
import type { Socket } from 'node:net';
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import { decode } from '../../wire/protocol/codec.ts';
import { BatchedWrites, FrameReader, toFrame } from '../../wire/protocol/frame.ts';
import type { Follower } from '../follower/follower.ts';
import { CAME, type Change, KIND } from '../follower/records.ts';
import type { CommandReport } from './journal-report.ts';
import { SecondNames } from './second-names.ts';
import { type FromShadow, parseFromShadow, type ToShadow } from './shadow-messages.ts';

/** Why nothing is kept of a command. */
export type NotKept = 'not-ready' | 'unwatched' | 'late' | 'lost' | 'beside' | 'other-user';

/** A command whose changes are being noted. */
export interface ShadowedRun {
  /**
   * The command is over: keeps its changes under a key, or nothing. Undefined if nothing changed. Never rejects.
   */
  end(key: string | undefined): Promise<CommandReport | NotKept | undefined>;
}

export interface ShadowLineOptions {
  readonly limits: Limits;
  readonly powers: Pick<Powers, 'after' | 'log'>;
  /** Gives the changes of the workspace. */
  readonly follower: Follower;
  /** Asks the host to start the thread. */
  start(): void;
  /** Called for each use, so that the host is not ended as idle. */
  onUse(): void;
  /** Called when the host sent something invalid. */
  onInvalid(error: unknown): void;
}

/** Names in one message, and bytes that may wait for the thread; with more it has to read the workspace anew. */
const NAMES_MAX = 1000;
const WAITING_BYTES_MAX = 16 * 1024 * 1024;

export class ShadowLine implements Disposable {
  readonly #socket: Socket;
  readonly #writer: BatchedWrites;
  readonly #options: ShadowLineOptions;
  readonly #secondNames = new SecondNames();
  readonly #pending = new Map<string, (answer: FromShadow | undefined) => void>();
  #unlisten: () => void = () => {};
  #isStarted = false;
  /** Whether the thread gets all changes. */
  #isFollowing = false;
  /** Whether the workspace was read since the thread gets all changes. */
  #wasReady = false;
  #isClosed = false;
  #runs = 0;

  constructor(socket: Socket, options: ShadowLineOptions) {
    this.#socket = socket;
    this.#options = options;
    this.#writer = new BatchedWrites(socket);
    const reader = new FrameReader(options.limits.frameBytesMax);
    socket
      .on('data', (chunk: Buffer) => this.#receive(reader, chunk))
      .on('error', () => this.#close())
      .on('close', () => this.#close());
  }

  /** Begins to read the workspace, in the background. */
  prepare(): void {
    if (this.#isStarted || this.#isClosed) return;
    this.#isStarted = true;
    this.#options.start();
    const { follower } = this.#options;
    this.#unlisten = follower.listen({
      onChanges: (changes) => this.#sendChanges(changes),
      onLost: () => this.#follow(false),
      onReady: () => this.#follow(follower.state === 'following'),
      onBeyond: () => this.#follow(false),
    });
    if (follower.state === 'following') this.#follow(true);
    else void follower.start();
  }

  /** A command is about to start: what others changed so far is taken in. Never rejects. */
  async begin(): Promise<ShadowedRun | NotKept> {
    this.#options.onUse();
    this.prepare();
    const { follower } = this.#options;
    const isSettled = await follower.settled();
    if (follower.state !== 'following') return follower.state === 'starting' ? 'not-ready' : 'unwatched';
    if (!isSettled) return 'late';
    // The thread did not keep up; it may now.
    if (!this.#isFollowing && this.#socket.writableLength === 0) this.#follow(true);
    if (!this.#isFollowing) return 'lost';
    const run = ++this.#runs;
    const answer = await this.#ask({ begin: run }, `began ${run}`, this.#options.limits.shadowBeginMs);
    if (answer && 'began' in answer && answer.state === 'ready') {
      this.#wasReady = true;
      return { end: (key) => this.#end(run, key) };
    }
    this.#send({ end: run });
    if (!answer || !('began' in answer)) return this.#wasReady ? 'late' : 'not-ready';
    return answer.state === 'building' ? 'not-ready' : 'unwatched';
  }

  [Symbol.dispose](): void {
    this.#socket.destroy();
    this.#close();
  }

  async #end(run: number, key: string | undefined): Promise<CommandReport | NotKept | undefined> {
    this.#options.onUse();
    if (key === undefined) {
      this.#send({ end: run });
      return 'beside';
    }
    await this.#options.follower.settled();
    const sweep = this.#secondNames.ask();
    const answer = await this.#ask({ end: run, key, sweep }, `ended ${run}`, this.#options.limits.shadowEndMs);
    if (!answer || !('ended' in answer)) return 'late';
    return answer.lost ? 'lost' : answer.report;
  }

  #follow(follow: boolean): void {
    if (!follow && !this.#isFollowing) return;
    this.#isFollowing = follow;
    this.#wasReady &&= follow;
    this.#send({ follow });
  }

  #sendChanges(changes: readonly Change[]): void {
    if (!this.#isFollowing) return;
    if (this.#socket.writableLength > WAITING_BYTES_MAX) return this.#follow(false);
    let message: { folder: string; changed: string[]; came: string[] } | undefined;
    for (const change of changes) {
      const { folder, name, kind } = change;
      this.#secondNames.take(change);
      if (message && (message.folder !== folder || message.changed.length + message.came.length >= NAMES_MAX)) {
        this.#send(message);
        message = undefined;
      }
      message ??= { folder, changed: [], came: [] };
      const hasCome = (kind & KIND.isFolder) !== 0 && (kind & CAME) !== 0;
      (hasCome ? message.came : message.changed).push(name);
    }
    if (message) this.#send(message);
  }

  /** Undefined if the answer did not come in time, or the host is gone. */
  #ask(message: ToShadow, answer: string, withinMs: number): Promise<FromShadow | undefined> {
    if (this.#isClosed) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      const settle = (it?: FromShadow) => {
        timer.cancel();
        this.#pending.delete(answer);
        resolve(it);
      };
      const timer = this.#options.powers.after(withinMs, settle);
      this.#pending.set(answer, settle);
      this.#send(message);
    });
  }

  #send(message: ToShadow): void {
    if (!this.#isClosed) this.#writer.write(toFrame(message, this.#options.limits.frameBytesMax));
  }

  #receive(reader: FrameReader, chunk: Buffer): void {
    const { limits, onInvalid } = this.#options;
    try {
      for (const payload of reader.push(chunk)) {
        const bounds = { pathsMax: limits.journalPathsMax, missingMax: limits.undoMissingMax };
        const message = parseFromShadow(decode(payload, limits), bounds);
        if (!message) throw new Error('not a message of the shadow');
        this.#pending.get('began' in message ? `began ${message.began}` : `ended ${message.ended}`)?.(message);
      }
    } catch (error) {
      onInvalid(error);
    }
  }

  #close(): void {
    this.#isClosed = true;
    this.#unlisten();
    for (const settle of this.#pending.values()) settle(undefined);
  }
}
