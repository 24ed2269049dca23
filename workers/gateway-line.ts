/** The line of a confined process to the gateway that started it: frames on a socket, until the gateway is gone. */
import { Socket } from 'node:net';
import type { Limits } from '../src/base/limits.ts';
import { UP, UP_FRAME_BYTES } from '../src/hosts/job.ts';
import { decode } from '../src/wire/protocol/codec.ts';
import type { EncodeLimits } from '../src/wire/protocol/encoder.ts';
import { FrameReader, toFrame } from '../src/wire/protocol/frame.ts';

/** Descriptor of the socket. */
export const GATEWAY_FD = 3;
/** Bounds until the setup arrives; the gateway bounds the frames that it sends. */
const BEFORE_SETUP = { messageDepthMax: 64, messageElementsMax: 1_000_000 };
/** Depth and elements that the message around a result adds. */
const ENVELOPE = { depth: 8, elements: 1000 };

export class GatewayLine<In, Out> {
  /** The limits of the setup, to be set when it comes; nothing can be sent before. */
  limits: Limits | undefined;
  readonly #socket = new Socket({ fd: GATEWAY_FD, readable: true, writable: true });

  /** `gone` is called when the gateway is gone, so that this process has nothing left to do. */
  constructor(receive: (message: In) => void, gone: () => void = () => process.exit(0)) {
    const reader = new FrameReader(2 ** 32 - 1);
    this.#socket.on('data', (chunk: Buffer) => {
      for (const payload of reader.push(chunk)) receive(decode(payload, this.limits ?? BEFORE_SETUP) as In);
    });
    this.#socket.on('error', () => {}); // 'close' follows.
    this.#socket.on('close', gone);
  }

  /** Says that this process listens. */
  sayUp(): void {
    this.#socket.write(toFrame(UP, UP_FRAME_BYTES));
  }

  /** Throws RpcError FRAME_TOO_LARGE, and RangeError beyond `bounds`. */
  send(message: Out, bounds?: EncodeLimits): void {
    this.#socket.write(toFrame(message, (this.limits as Limits).frameBytesMax, bounds));
  }

  /** Sends a message whose content others made. Throws for one that the gateway would not read. */
  sendForeign(message: Out): void {
    const { messageDepthMax, messageElementsMax } = this.limits as Limits;
    this.send(message, {
      messageDepthMax: messageDepthMax - ENVELOPE.depth,
      messageElementsMax: messageElementsMax - ENVELOPE.elements,
    });
  }

  /** Ends this process when everything was sent. */
  end(): void {
    this.#socket.end(() => process.exit(0));
  }
}
