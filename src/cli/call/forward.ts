/** `ringfence forward`: opens a port of a command in the background on this machine's loopback, until that ends or the person does. */
import { closeSync, constants, fstatSync, openSync } from 'node:fs';
import { connect, createServer, type Server } from 'node:net';
import { showLine } from '../../base/text/shown-text.ts';
import type { Client } from '../../client/client.ts';
import { relay } from '../../sandbox/egress/relay.ts';
import { idOf } from '../ids.ts';
import { EXIT, harmless, OperatorError, print, printJson, say, UsageError } from '../output.ts';

export interface ForwardFlags {
  readonly json?: boolean;
  /** The local port; any free one if absent. */
  readonly port?: string;
}

const LOOPBACK = '127.0.0.1';
/** Opens a file as a place only; the kernel connects to the socket that it was when it was opened. */
const O_PATH = 0o10000000;

/** Returns the exit code when the port is closed. */
export async function forward(
  id: string,
  port: string,
  { json, port: localPort = '0' }: ForwardFlags,
  client: Pick<Client, 'request'>,
): Promise<number> {
  const { commands } = await client.request('background.list', {});
  const running = commands.filter(({ exited }) => !exited);
  const callId = idOf(
    id,
    running.flatMap((it) => [it.callId, it.handle]),
  );
  const open = await client.request('forward.open', { callId, port: portOf(port) });
  using parts = new DisposableStack();
  const socket = parts.adopt(openSocket(open.path), closeSync);
  const server = parts.adopt(serverTo(socket), (it) => it.close().unref());
  const url = `http://${LOOPBACK}:${await listenAt(server, portOf(localPort))}`;
  if (json) printJson({ url, callId, port: Number(port) });
  else {
    print(showLine(`${url} is port ${port} of: ${open.command}`));
    if (!open.ports.includes(Number(port))) say(harmless(listening(port, open.ports)));
    say('until it ends, or Ctrl-C');
  }
  const { reason } = await client.request('forward.wait', { forwardId: open.forwardId });
  say(harmless(`the port is closed: ${reason}`));
  return EXIT.OK;
}

const serverTo = (socket: number): Server =>
  createServer({ allowHalfOpen: true, noDelay: true }, (person) =>
    relay(person, connect({ path: `/proc/self/fd/${socket}`, allowHalfOpen: true })),
  );

const listening = (port: string, ports: readonly number[]): string =>
  `nothing listens at ${port} yet${ports.length > 0 ? `; the command listens at ${ports.join(', ')}` : ''}`;

/** Throws UsageError. */
function portOf(text: string): number {
  const port = Number(text);
  if (/^\d{1,5}$/.test(text) && port <= 65_535) return port;
  throw new UsageError(`not a port: ${harmless(text)}; write a number from 1 to 65535`);
}

/** The socket as a descriptor: a host that was taken over could put a link to another program's socket in its place. Throws OperatorError. */
function openSocket(path: string): number {
  let fd: number;
  try {
    fd = openSync(path, O_PATH | constants.O_NOFOLLOW);
  } catch (error) {
    throw new OperatorError(`the port can't be reached: ${harmless((error as Error).message)}`);
  }
  if (fstatSync(fd).isSocket()) return fd;
  closeSync(fd);
  throw new OperatorError(`the port can't be reached: ${harmless(path)} is no socket`);
}

/** The port at which it listens then. Throws OperatorError. */
function listenAt(server: Server, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', (error) => reject(new OperatorError(`${LOOPBACK}:${port} is not free: ${error.message}`)));
    server.listen(port, LOOPBACK, () => resolve((server.address() as { port: number }).port));
  });
}
