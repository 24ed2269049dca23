/**
 * The door of one command in the egress proxy: hosts that no list names, and that a person may open while the connection waits. What
 * goes through such a host is held to the name that the person saw, and they are asked again before much is sent.
 */

import type { Socket } from 'node:net';
import { networkInterfaces } from 'node:os';
import { Transform, type TransformCallback } from 'node:stream';
import { parseAddress } from '../../policy/address.ts';
import {
  type Destination,
  mayAsk,
  type NetworkLayer,
  type NetworkRule,
  refusedName,
  withOpened,
} from '../../policy/network.ts';
import { HELLO_BYTES_MAX, readClientHello } from './client-hello.ts';
import type { DoorAnswer, DoorQuestion } from './messages.ts';

/** Bytes that a connection may send beyond what it received before a person is asked. */
export const UPLOAD_BYTES_UNASKED = 256 * 1024;

export interface DoorOptions {
  readonly layers: readonly NetworkLayer[];
  /** Which of the layers have a person asked. */
  readonly asks: readonly boolean[];
  /** Bytes that the command may send to opened hosts before a person is asked, however much it receives. */
  readonly uploadBytesMax: number;
  /** Asks the gateway, which may ask a person. */
  ask(question: DoorQuestion): Promise<DoorAnswer>;
}

export class CommandDoor {
  readonly #options: DoorOptions;
  readonly #granted: NetworkRule[] = [];
  /** Questions that wait, by their target. */
  readonly #waiting = new Map<string, Promise<string | undefined>>();
  /** Hosts that may be sent as much as is wanted. */
  readonly #agreed = new Set<string>();
  #uploaded = 0;

  constructor(options: DoorOptions) {
    this.#options = options;
  }

  /** The layers with what was opened. */
  get layers(): readonly NetworkLayer[] {
    return this.#granted.length === 0 ? this.#options.layers : withOpened(this.#options, this.#granted);
  }

  /** Whether the host can be connected to only because a person opened it. */
  isOpened = (to: Destination): boolean => refusedName(this.#options.layers, to) !== undefined;

  /** Whether a person may be asked about the host. */
  mayAsk = (to: Destination): boolean => mayAsk(this.#options, to);

  /** Waits for the answer about a host; gives why it stays closed, and undefined when it is open. */
  open(to: Destination, client: Socket | undefined): Promise<string | undefined> {
    return this.#askOnce({
      kind: 'host',
      ...to,
      clientPort: client?.remotePort,
      sent: 0,
    });
  }

  /** Why an address of an opened host is refused; undefined if it is not. */
  refusedAddress(address: string): string | undefined {
    if (this.#granted.some((it) => it.private)) return undefined;
    const own = Object.values(networkInterfaces()).flatMap((it) => it ?? []);
    return own.some((it) => it.address === address) ? `${address} is an address of this machine` : undefined;
  }

  /**
   * What a client sends to an opened host passes through this. Calls `onRefused` with the reason instead of passing on what must not
   * be sent.
   */
  gate(to: Destination, upstream: Socket, onRefused: (reason: string) => void): Transform {
    return new DoorGate({
      hasToName: parseAddress(to.host) === undefined ? to.host : undefined,
      onRefused,
      maySend: async (bytes, ofConnection) => {
        const target = `${to.host} ${to.port}`;
        if (this.#agreed.has(target)) return undefined;
        this.#uploaded += bytes;
        const isMuch = ofConnection > UPLOAD_BYTES_UNASKED && ofConnection > upstream.bytesRead;
        if (!isMuch && this.#uploaded <= this.#options.uploadBytesMax) return undefined;
        const refused = await this.#askOnce({ kind: 'upload', ...to, sent: this.#uploaded });
        if (refused === undefined) this.#agreed.add(target);
        return refused;
      },
    });
  }

  #askOnce(question: DoorQuestion): Promise<string | undefined> {
    const key = `${question.kind} ${question.host} ${question.port}`;
    const known = this.#waiting.get(key);
    if (known) return known;
    const asked = this.#ask(question).finally(() => this.#waiting.delete(key));
    this.#waiting.set(key, asked);
    return asked;
  }

  async #ask(question: DoorQuestion): Promise<string | undefined> {
    const answer = await this.#options.ask(question);
    if ('refused' in answer) return answer.refused;
    if (question.kind === 'host' && 'open' in answer) this.#granted.push(...answer.open);
    return undefined;
  }
}

interface GateOptions {
  /** The name that a TLS connection must ask for; undefined for an address. */
  readonly hasToName: string | undefined;
  onRefused(reason: string): void;
  /** Why so many more bytes may not be sent; `ofConnection` counts all of the connection. */
  maySend(bytes: number, ofConnection: number): Promise<string | undefined>;
}

class DoorGate extends Transform {
  readonly #options: GateOptions;
  #first: Buffer | undefined = Buffer.alloc(0);
  #sent = 0;

  constructor(options: GateOptions) {
    super();
    this.#options = options;
  }

  override _transform(chunk: Buffer, _: BufferEncoding, done: TransformCallback): void {
    void this.#pass(chunk, done);
  }

  async #pass(chunk: Buffer, done: TransformCallback): Promise<void> {
    let passed: Buffer | undefined;
    try {
      passed = await this.#judge(chunk);
    } catch (error) {
      this.#options.onRefused((error as Error).message);
      return done(error as Error);
    }
    done(null, passed);
  }

  /** What may be sent now of what came; throws an Error that says why nothing may. */
  async #judge(chunk: Buffer): Promise<Buffer | undefined> {
    const all = this.#first ? Buffer.concat([this.#first, chunk]) : chunk;
    if (this.#first) {
      const hello = readClientHello(all.subarray(0, HELLO_BYTES_MAX));
      if (hello === 'partial') {
        this.#first = all;
        return undefined;
      }
      const refusal = refusedHello(hello, this.#options.hasToName);
      if (refusal !== undefined) throw new Error(refusal);
      this.#first = undefined;
    }
    this.#sent += all.length;
    const refusal = await this.#options.maySend(all.length, this.#sent);
    if (refusal !== undefined) throw new Error(refusal);
    return all;
  }
}

function refusedHello(hello: ReturnType<typeof readClientHello>, name: string | undefined): string | undefined {
  if (typeof hello === 'string')
    return hello === 'invalid' ? 'what it sent begins like TLS, and can not be read' : undefined;
  if (hello.isEncrypted) return 'it hides the name of the server (ECH), which a person did not see';
  if (name === undefined || hello.serverName === name) return undefined;
  return `it asks for the server ${JSON.stringify(hello.serverName ?? '')}, and a person opened ${name}`;
}
