/** stdio as a transport: a byte pipe between our own standard streams and a daemon's socket. */
import type { Socket } from 'node:net';
import { pipeline } from 'node:stream/promises';

/** Until either side ends; rejects when one breaks. */
export async function pipeStdio(
  socket: Socket,
  stdin: NodeJS.ReadableStream,
  stdout: NodeJS.WritableStream,
): Promise<void> {
  await Promise.race([pipeline(socket, stdout), pipeline(stdin, socket)]);
  socket.destroy();
}
