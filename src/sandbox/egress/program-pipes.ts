/**
 * Pipes between a command and a program that the gateway starts for it, with a token of its own, such as the person's ssh. Either side
 * reaches the proxy alone, by CONNECT: the command names the program, the program the pipe. The names are no hosts (RFC 6761).
 */
import { type Duplex, duplexPair } from 'node:stream';
import type { Destination } from '../../policy/network.ts';
import { ConnectionRefused } from './connection-guard.ts';
import type { DoorAnswer, DoorQuestion } from './messages.ts';

const DOMAIN = '.ringfence.invalid';
const PIPE = `pipe${DOMAIN}`;

export class ProgramPipes {
  readonly #ask: (token: string, question: DoorQuestion) => Promise<DoorAnswer>;
  /** Ends of pipes that wait for their program, by its token. */
  readonly #waiting = new Map<string, Duplex>();

  constructor(ask: (token: string, question: DoorQuestion) => Promise<DoorAnswer>) {
    this.#ask = ask;
  }

  /** The near end of a pipe; undefined for a host. Rejects with ConnectionRefused. */
  open(token: string, { host, port }: Destination): Promise<Duplex> | undefined {
    if (host === PIPE) return this.#join(token);
    if (!host.endsWith(DOMAIN)) return undefined;
    return this.#start(token, { kind: 'program', host: host.slice(0, -DOMAIN.length), port, sent: 0 });
  }

  /** Ends the pipe to a program that never came for it. */
  close(token: string): void {
    this.#waiting.get(token)?.destroy();
    this.#waiting.delete(token);
  }

  async #start(token: string, question: DoorQuestion): Promise<Duplex> {
    const answer = await this.#ask(token, question);
    if (!('program' in answer)) throw new ConnectionRefused('refused' in answer ? answer.refused : 'it is no program');
    const [near, far] = duplexPair();
    // The pair passes on an end, but not that a side is gone.
    near.on('error', () => {}).once('close', () => far.destroy());
    far.on('error', () => {}).once('close', () => near.destroy());
    this.#waiting.set(answer.program, far);
    return near;
  }

  async #join(token: string): Promise<Duplex> {
    const end = this.#waiting.get(token);
    if (!end) throw new ConnectionRefused('nothing waits for it');
    this.#waiting.delete(token);
    return end;
  }
}
