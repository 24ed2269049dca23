/** stdio as a transport: pipes bytes between our own standard streams and a daemon's socket. */
import type { Socket } from 'node:net';
import { pipeline } from 'node:stream/promises';

/** Pipes until either side ends; rejects when one fails. */
export async function pipeStdio(
  socket: Socket,
  stdin: NodeJS.ReadableStream,
  stdout: NodeJS.WritableStream,
): Promise<void> {
  await Promise.race([pipeline(socket, stdout), pipeline(stdin, socket)]);
  socket.destroy();
}
