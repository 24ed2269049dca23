/** What a session tells its client: at once while one is connected, and kept for a while where one may come back. */
import { heldBytes } from '../held-bytes.ts';
import type { Limits } from '../limits.ts';
import type { Audience } from './link.ts';

interface Notice {
  readonly method: string;
  readonly params: Record<string, unknown>;
  readonly bytes: number;
}

/** What a client that came back was kept, and what of it found no place. */
export interface Kept {
  readonly notices: number;
  /** Left out, `call.output` first: `results.read` still has it. */
  readonly dropped: number;
}

const OUTPUT = 'call.output';
/** Of a notice in memory, beside its params. */
const NOTICE_BYTES = 64;

export class Outbox {
  readonly #bytesMax: number;
  #peer: Audience | undefined;
  #waiting: Notice[] = [];
  #bytes = 0;
  /** Pieces of output among what waits. */
  #outputs = 0;
  #dropped = 0;
  /** Whether what comes waits although somebody is connected: the answer to his hello goes first. */
  #holding = false;
  #closed = false;

  constructor({ resumeBufferBytes }: Pick<Limits, 'resumeBufferBytes'>) {
    this.#bytesMax = resumeBufferBytes;
  }

  /** Whether the client reads so slowly that nothing more should be made for it. */
  get congested(): boolean {
    return this.#peer?.congested ?? false;
  }

  /** From now on notices go to this peer, what waited first, after `release`. */
  attach(peer: Audience): Kept {
    this.#peer = peer;
    this.#holding = true;
    const kept = { notices: this.#waiting.length, dropped: this.#dropped };
    this.#dropped = 0;
    return kept;
  }

  /** Sends what waits, as far as the peer takes it; called again when it reads on. */
  release(): void {
    this.#holding = false;
    while (this.#peer && !this.#peer.closed && !this.#peer.congested) {
      const notice = this.#waiting.shift();
      if (!notice) return;
      this.#forget(notice);
      this.#peer.notify(notice.method, notice.params);
    }
  }

  /** Nobody is connected: what comes waits. */
  detach(): void {
    this.#peer = undefined;
  }

  /** Nobody will come back. */
  close(): void {
    this.#closed = true;
    this.#peer = undefined;
    this.#waiting = [];
  }

  notify(method: string, params: Record<string, unknown>): void {
    if (this.#closed) return;
    // A slow reader's notices are left out where nothing waits, as those of a session that can't come back.
    if (this.#peer && !this.#holding && this.#waiting.length === 0) return this.#peer.notify(method, params);
    const { data } = params;
    // A copy: a chunk of output shares the memory of the frame that it came in.
    const own = data instanceof Uint8Array ? { ...params, data: Buffer.from(data) } : params;
    const notice = { method, params: own, bytes: NOTICE_BYTES + heldBytes(own) };
    this.#waiting.push(notice);
    this.#bytes += notice.bytes;
    if (method === OUTPUT) this.#outputs += 1;
    while (this.#bytes > this.#bytesMax) this.#dropOne();
  }

  #dropOne(): void {
    // Most often there is none, or it is among the first: a flood must not be looked through for each of it.
    const at = this.#outputs > 0 ? this.#waiting.findIndex(({ method }) => method === OUTPUT) : 0;
    for (const dropped of this.#waiting.splice(at, 1)) this.#forget(dropped);
    this.#dropped += 1;
  }

  #forget({ method, bytes }: Notice): void {
    this.#bytes -= bytes;
    if (method === OUTPUT) this.#outputs -= 1;
  }
}
