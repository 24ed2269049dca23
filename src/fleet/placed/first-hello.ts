/**
 * The check of a placed session's first message. The daemon takes a connection without a token for a client of this machine,
 * so that a gateway which left the token out would get a session that no lease fences.
 */
import type { Socket } from 'node:net';
import type { Limits } from '../../base/limits.ts';
import { isRecord } from '../../base/text/values.ts';
import { decode } from '../../wire/protocol/codec.ts';
import { FrameReader } from '../../wire/protocol/frame.ts';
import type { SessionStream } from './stream.ts';

/** Passes a session on to the daemon once its first message opens it with the token; else ends it. */
export function passOnWithToken(stream: SessionStream, socket: Socket, token: string, limits: Limits): void {
  const reader = new FrameReader(limits.frameBytesMax);
  const held: Buffer[] = [];
  const check = (bytes: Buffer) => {
    held.push(bytes);
    try {
      const [first] = reader.push(bytes);
      if (!first) return;
      if (!opensWith(decode(first, limits), token)) throw new Error('the gateway opened a session without its token');
    } catch (error) {
      return void stream.destroy(error as Error);
    }
    stream.off('data', check);
    for (const it of held) socket.write(it);
    stream.pipe(socket);
  };
  stream.on('data', check);
}

function opensWith(message: unknown, token: string): boolean {
  const { method, params } = isRecord(message) ? message : {};
  return method === 'hello' && isRecord(params) && params.token === token;
}
