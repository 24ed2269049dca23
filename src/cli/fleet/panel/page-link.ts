/** The connection of one page: it says hello with a proof of its sign-in, and only then is anything of the fleet told. */
import { RpcError } from '../../../base/errors.ts';
import { isRecord } from '../../../base/text/values.ts';
import { Peer, type PeerOptions } from '../../../wire/protocol/peer.ts';
import type { Channel } from '../../../wire/transport/transport.ts';
import type { WaitingConnection } from '../../../wire/transport/waiting-room.ts';

export interface PageLinkParts extends Pick<PeerOptions, 'limits' | 'powers' | 'budget' | 'turns'> {
  readonly fleet: string;
  /** The id of the page that gives this ticket, once. */
  idOf(ticket: string): string | undefined;
  /** Answers a request of a page that is signed in. Throws RpcError. */
  answer(method: string, params: unknown): Promise<unknown>;
  onSignedIn(id: string): void;
  onClose(): void;
}

export class PageLink implements WaitingConnection {
  readonly #channel: Channel;
  readonly #parts: PageLinkParts;
  readonly #peer: Peer;
  #isSignedIn = false;

  constructor(channel: Channel, parts: PageLinkParts) {
    this.#channel = channel;
    this.#parts = parts;
    const { limits, powers, budget, turns } = parts;
    const silent = powers.after(limits.helloTimeoutMs, () => {
      if (!this.#isSignedIn) this.destroy();
    });
    this.#peer = new Peer(channel, {
      limits,
      powers,
      budget,
      turns,
      onRequest: (method, params) => (method === 'hello' ? this.#greet(params) : this.#serve(method, params)),
      onClose: () => {
        silent.cancel();
        parts.onClose();
      },
    });
  }

  get isUnheard(): boolean {
    return this.#peer.isUnheard;
  }

  notify(method: string, params: unknown): void {
    this.#peer.notify(method, params);
  }

  destroy(): void {
    this.#channel.destroy();
  }

  #greet(params: unknown): object {
    const { token } = isRecord(params) ? params : {};
    const id = typeof token === 'string' ? this.#parts.idOf(token) : undefined;
    if (id === undefined) throw new RpcError('UNAUTHENTICATED', 'this page is not signed in');
    this.#isSignedIn = true;
    this.#parts.onSignedIn(id);
    return { protocol: 1, fleet: this.#parts.fleet };
  }

  #serve(method: string, params: unknown): Promise<unknown> {
    if (!this.#isSignedIn) throw new RpcError('NOT_READY', 'the first request must be hello');
    return this.#parts.answer(method, params);
  }
}
