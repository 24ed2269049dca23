/**
 * The gateway's end of the socket to the thread of a write host that knows what its workspace held before a command. A
 * command never waits for it longer than its bounds say, and runs without undo if it does not answer.
 */
import type { Socket } from 'node:net';
import type { Limits } from '../../limits.ts';
import type { Powers } from '../../powers.ts';
import { decode } from '../../protocol/codec.ts';
import { FrameReader, FrameWriter, toFrame } from '../../protocol/frame.ts';
import type { CommandReport } from './journal-report.ts';
import { type FromShadow, parseFromShadow, type ToShadow } from './shadow-messages.ts';

/** Why nothing is kept of a command. */
export type NotKept = 'not-ready' | 'unwatched' | 'late' | 'lost' | 'beside';

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
  /** Asks the host to start the thread. */
  start(): void;
  /** Called for each use, so that the host is not ended as idle. */
  onUse(): void;
  /** Called when the host sent something invalid. */
  onInvalid(error: unknown): void;
}

export class ShadowLine implements Disposable {
  readonly #socket: Socket;
  readonly #writer: FrameWriter;
  readonly #options: ShadowLineOptions;
  readonly #pending = new Map<string, (answer: FromShadow | undefined) => void>();
  #isStarted = false;
  #isClosed = false;
  #runs = 0;

  constructor(socket: Socket, options: ShadowLineOptions) {
    this.#socket = socket;
    this.#options = options;
    this.#writer = new FrameWriter(socket);
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
  }

  /** A command is about to start: what others changed so far is taken in. Never rejects. */
  async begin(): Promise<ShadowedRun | NotKept> {
    this.#options.onUse();
    if (!this.#isStarted) {
      this.prepare();
      return 'not-ready';
    }
    const run = ++this.#runs;
    const answer = await this.#ask({ begin: run }, `began ${run}`, this.#options.limits.shadowBeginMs);
    if (answer && 'began' in answer && answer.state === 'ready') return { end: (key) => this.#end(run, key) };
    this.#send({ end: run });
    if (!answer || !('began' in answer)) return 'late';
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
    const answer = await this.#ask({ end: run, key }, `ended ${run}`, this.#options.limits.shadowEndMs);
    if (!answer || !('ended' in answer)) return 'late';
    return answer.lost ? 'lost' : answer.report;
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
    for (const settle of this.#pending.values()) settle(undefined);
  }
}
