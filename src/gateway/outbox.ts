/** Notices of a session to its client: sent at once while a client is connected, buffered for a while if one may come back. */

import type { Limits } from '../base/limits.ts';
import { heldBytes } from '../base/text/held-bytes.ts';

interface BufferedNotice {
  readonly method: string;
  readonly params: Record<string, unknown>;
  readonly bytes: number;
}

/** Numbers of notices that were buffered and dropped for a client that came back. */
export interface BufferCounts {
  readonly notices: number;
  /** Number of dropped notices; `call.output` is dropped first, since `results.read` still has it. */
  readonly dropped: number;
}

const OUTPUT = 'call.output';
/** Memory of a notice in addition to its params, in bytes. */
const NOTICE_BYTES = 64;

export class Outbox {
  readonly #bytesMax: number;
  #peer: NoticeReceiver | undefined;
  #buffered: BufferedNotice[] = [];
  #bytes = 0;
  /** Number of `call.output` notices in `#buffered`. */
  #outputs = 0;
  #dropped = 0;
  /** Whether notices wait although a client is connected: the answer to its hello goes first. */
  #holding = false;
  #closed = false;

  constructor({ resumeBufferBytes }: Pick<Limits, 'resumeBufferBytes'>) {
    this.#bytesMax = resumeBufferBytes;
  }

  /** Whether the client reads so slowly that nothing more should be produced for it. */
  get congested(): boolean {
    return this.#peer?.congested ?? false;
  }

  /** Connects a peer; after `release` it receives the buffered notices first. */
  attach(peer: NoticeReceiver): BufferCounts {
    this.#peer = peer;
    this.#holding = true;
    const notices = { notices: this.#buffered.length, dropped: this.#dropped };
    this.#dropped = 0;
    return notices;
  }

  /** Sends buffered notices as long as the peer accepts them; called again when it reads on. */
  release(): void {
    this.#holding = false;
    while (this.#peer && !this.#peer.closed && !this.#peer.congested) {
      const notice = this.#buffered.shift();
      if (!notice) return;
      this.#forget(notice);
      this.#peer.notify(notice.method, notice.params);
    }
  }

  /** Disconnects the peer; further notices are buffered. */
  detach(): void {
    this.#peer = undefined;
  }

  /** Closes for good; no client will come back. */
  close(): void {
    this.#closed = true;
    this.#peer = undefined;
    this.#buffered = [];
  }

  notify(method: string, params: Record<string, unknown>): void {
    if (this.#closed) return;
    // With an empty buffer a slow reader's notices go to the peer, which drops them, as for a session that can't be resumed.
    if (this.#peer && !this.#holding && this.#buffered.length === 0) return this.#peer.notify(method, params);
    const { data } = params;
    // Copied, since a chunk of output shares the memory of its frame.
    const own = data instanceof Uint8Array ? { ...params, data: Buffer.from(data) } : params;
    const notice = { method, params: own, bytes: NOTICE_BYTES + heldBytes(own) };
    this.#buffered.push(notice);
    this.#bytes += notice.bytes;
    if (method === OUTPUT) this.#outputs += 1;
    while (this.#bytes > this.#bytesMax) this.#dropOne();
  }

  #dropOne(): void {
    // Usually there is no `call.output`, or one near the front; a flood must not be searched for each dropped notice.
    const at = this.#outputs > 0 ? this.#buffered.findIndex(({ method }) => method === OUTPUT) : 0;
    for (const dropped of this.#buffered.splice(at, 1)) this.#forget(dropped);
    this.#dropped += 1;
  }

  #forget({ method, bytes }: BufferedNotice): void {
    this.#bytes -= bytes;
    if (method === OUTPUT) this.#outputs -= 1;
  }
}

/** Receives the notices of a session: a peer of the daemon, or a front end inside this process. */
export interface NoticeReceiver {
  readonly closed: boolean;
  /** Whether it reads so slowly that nothing more should be produced for it. */
  readonly congested: boolean;
  /** Whether it can ask a person about the calls of its session. */
  readonly asks?: boolean;
  notify(method: string, params: Record<string, unknown>): void;
  /** Closes after everything sent has arrived. */
  close(): void;
}
