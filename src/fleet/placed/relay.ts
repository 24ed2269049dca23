/**
 * One client of a gateway: its frames go to the node of its session and back. The gateway looks at them for one reason: to
 * say what became of each call when the node is lost.
 */

import type { Socket } from 'node:net';
import type { Writable } from 'node:stream';
import type { ToolResult } from '../../base/call.ts';
import { RpcError } from '../../base/errors.ts';
import { outcomeOnLoss } from '../../base/fencing.ts';
import type { Limits } from '../../base/limits.ts';
import { lostResult } from '../../base/lost-result.ts';
import type { Powers } from '../../base/powers.ts';
import { isRecord } from '../../base/text/values.ts';
import { decode } from '../../wire/protocol/codec.ts';
import { encodeFrame, FrameReader, toFrame } from '../../wire/protocol/frame.ts';
import type { SessionStream } from './stream.ts';

export interface RelayOptions {
  readonly limits: Limits;
  readonly powers: Powers;
  /** Opens a session for what `hello` asks. Throws RpcError with the reason why there is none. */
  open(hello: Hello): Promise<OpenedSession>;
}

export interface OpenedSession {
  readonly node: string;
  readonly stream: SessionStream;
  /** The hello for the node. */
  readonly hello: Hello;
}

/** The params of `hello`, as far as the gateway needs them. */
export type Hello = Readonly<Record<string, unknown>>;

interface PendingCall {
  readonly callId: string;
  readonly tool: string;
  /** Whether all of its request has been sent to the node. */
  reachedNode: boolean;
}

export class Relay {
  readonly #socket: Socket;
  readonly #options: RelayOptions;
  readonly #fromClient: FrameReader;
  readonly #fromNode: FrameReader;
  /** Calls without an answer, by the id of their request. */
  readonly #pending = new Map<unknown, PendingCall>();
  #stream: SessionStream | undefined;
  #node = '';
  #isOpening = false;
  #hasToken = false;
  #isGreeted = false;

  constructor(socket: Socket, options: RelayOptions) {
    this.#socket = socket;
    this.#options = options;
    this.#fromClient = new FrameReader(options.limits.frameBytesMax);
    // A node sends what it announces, so that room for it is not made in steps.
    this.#fromNode = new FrameReader(options.limits.frameBytesMax, options.limits.fleetWindowBytes);
    socket.on('data', (bytes: Buffer) => this.#guard(() => this.#takeFromClient(bytes)));
    socket.on('error', () => socket.destroy());
    socket.once('close', () => this.#stream?.destroy());
  }

  /** Answers the calls that wait, since their node is lost, and ends the connection. */
  lose(why: string): void {
    const { powers } = this.#options;
    for (const [id, call] of this.#pending)
      this.#send({ id, result: lostCall(call, { node: this.#node, why }, powers) });
    this.#pending.clear();
    this.#stream?.destroy();
    this.#socket.end();
  }

  #guard(work: () => void): void {
    try {
      work();
    } catch (error) {
      if (!(error instanceof RpcError)) throw error;
      this.#options.powers.log.warn({ reason: error.message }, 'a connection of the gateway ends');
      this.#socket.destroy();
      this.#stream?.destroy();
    }
  }

  #takeFromClient(bytes: Buffer): void {
    for (const payload of this.#fromClient.push(bytes)) {
      const message = this.#decoded(payload);
      if (this.#stream) this.#forward(payload, message);
      else if (this.#isOpening) throw new RpcError('INVALID_REQUEST', 'the answer to hello must be waited for');
      else if (message.method !== 'hello') throw new RpcError('NOT_READY', 'the first request must be hello');
      else void this.#begin(message);
    }
  }

  async #begin({ id, params }: Message): Promise<void> {
    this.#isOpening = true;
    try {
      const { node, stream, hello } = await this.#options.open(isRecord(params) ? params : {});
      this.#stream = stream;
      this.#node = node;
      stream.on('data', (bytes: Buffer) => this.#guard(() => this.#takeFromNode(bytes, { id, hello })));
      stream.once('close', () => this.lose('its session ended'));
      if (this.#socket.destroyed) stream.destroy();
    } catch (error) {
      if (!(error instanceof RpcError)) throw error;
      this.#send({ id, error: error.toWire() });
      this.#socket.end();
    }
  }

  /** The first frame of the node is the token of the session, which is not for the client. */
  #takeFromNode(bytes: Buffer, { id, hello }: { id: unknown; hello: Hello }): void {
    for (const payload of this.#fromNode.push(bytes)) {
      const message = this.#decoded(payload);
      if (!this.#hasToken) {
        this.#hasToken = true;
        const { refused } = message as { refused?: unknown };
        if (refused !== undefined) return this.#refuse(id, refused);
        const params = { ...hello, token: (message as { token?: unknown }).token };
        this.#stream?.write(toFrame({ id, method: 'hello', params }, this.#options.limits.frameBytesMax));
        continue;
      }
      if (!this.#isGreeted && isRecord(message.result)) {
        this.#isGreeted = true;
        this.#send(withNode(message, message.result, this.#node));
        continue;
      }
      if (message.method === undefined) this.#pending.delete(message.id);
      gather(this.#socket);
      if (!this.#socket.write(encodeFrame(payload, this.#options.limits.frameBytesMax))) this.#pauseNode();
    }
  }

  /** Tells the client why the node could not make its workspace. */
  #refuse(id: unknown, error: unknown): void {
    this.#send({ id, error });
    this.#socket.end();
  }

  /** A client that reads slowly holds up its own session only. */
  #pauseNode(): void {
    this.#stream?.pause();
    this.#socket.once('drain', () => this.#stream?.resume());
  }

  #forward(payload: Buffer, { id, method, params }: Message): void {
    const call = method === 'tools.call' ? pendingOf(params) : undefined;
    if (call) this.#pending.set(id, call);
    const stream = this.#stream as SessionStream;
    const sent = () => {
      if (call) call.reachedNode = true;
    };
    // The payload may share memory that is used again.
    if (stream.write(Buffer.from(encodeFrame(payload, this.#options.limits.frameBytesMax)), sent)) return;
    this.#socket.pause();
    stream.once('drain', () => this.#socket.resume());
  }

  #decoded(payload: Buffer): Message {
    const message = decode(payload, this.#options.limits);
    if (!isRecord(message)) throw new RpcError('INVALID_REQUEST', 'a message must be an object');
    return message;
  }

  #send(message: object): void {
    if (!this.#socket.destroyed) this.#socket.write(toFrame(message, this.#options.limits.frameBytesMax));
  }
}

/**
 * Makes one write of all that is written to a client in this turn of the event loop. What goes to the node is not gathered:
 * each call must know whether it was sent.
 */
function gather(stream: Writable): void {
  if (stream.writableCorked > 0) return;
  stream.cork();
  process.nextTick(() => stream.uncork());
}

type Message = {
  readonly id?: unknown;
  readonly method?: unknown;
  readonly params?: unknown;
  readonly result?: unknown;
};

/** The answer to hello with the name of the node, which the client needs to resume its session. */
function withNode(message: Message, greeting: Record<string, unknown>, node: string): Message {
  const session = isRecord(greeting.session) ? greeting.session : {};
  return { ...message, result: { ...greeting, session: { ...session, node } } };
}

function pendingOf(params: unknown): PendingCall {
  const { tool, options } = isRecord(params) ? params : {};
  const { callId } = isRecord(options) ? options : {};
  const text = (it: unknown) => (typeof it === 'string' ? it : '');
  return { tool: text(tool), callId: text(callId), reachedNode: false };
}

/** The result of a call whose node is lost. */
function lostCall(
  { callId, tool, reachedNode }: PendingCall,
  { node, why }: { node: string; why: string },
  powers: Pick<Powers, 'now'>,
): ToolResult {
  const outcome = outcomeOnLoss(reachedNode);
  const isSent = outcome !== 'none';
  const told = isSent ? 'whether the call ran, and what it has done, is unknown' : 'the call was not sent to it';
  const suggestion = isSent
    ? `When ${node} is back, \`ringfence fleet call ${node} ${callId || 'ID'}\` says what became of the call.`
    : 'Open a session anew, and call again.';
  const message = `the node of this session is lost (${why}): ${told}`;
  return lostResult({ callId, tool, atMs: powers.now() }, { message, suggestion, outcome, node });
}
