/** Starts the MCP listeners: mcp.sock, whose clients the kernel identifies, and HTTP. The SDK is loaded with the first client. */
import type { Socket } from 'node:net';
import { principalOf } from '../../gateway/authenticate.ts';
import type { Events } from '../../gateway/events.ts';
import type { Catalogue } from '../../tools/catalogue.ts';
import type { InheritedSockets, SocketName } from '../../wire/transport/inherited-sockets.ts';
import { peerCredentials } from '../../wire/transport/peer-credentials.ts';
import type { TcpAddress } from '../../wire/transport/tcp.ts';
import type { Listener } from '../../wire/transport/transport.ts';
import { listenSocket } from '../../wire/transport/unix-socket.ts';
import type { FaceParts, McpFace } from './face.ts';
import type { Monitor } from './monitor.ts';
import type { HttpCaller } from './shared-sessions.ts';

export interface ListenParts extends FaceParts {
  readonly socket: string;
  /** The socket's descriptor, if it was passed on. */
  readonly sockets: Pick<InheritedSockets, 'mcp' | 'kept'>;
  /** Loopback address; HTTP is served only if present. */
  readonly http: TcpAddress | undefined;
  readonly monitor: Monitor;
  readonly catalogue: Catalogue;
  readonly events: Events;
}

/** Passes each listener with its name to `add` as soon as it listens. Throws SocketError; Error for an address that is not available. */
export async function listenMcp(
  parts: ListenParts,
  add: (name: SocketName, listener: Listener) => void,
): Promise<void> {
  const { powers, catalogue, events, http, sockets } = parts;
  let loading: Promise<McpFace> | undefined;
  let loaded: McpFace | undefined;
  const load = (): Promise<McpFace> => {
    loading ??= import('./face.ts').then(({ McpFace: Face }) => {
      loaded = new Face(parts);
      return loaded;
    });
    return loading;
  };
  const accept = (socket: Socket) => {
    // The socket may end before the MCP server is loaded.
    socket.on('error', () => socket.destroy());
    load().then(
      (face) => face.accept(socket, callerOf(socket)),
      (error: unknown) => {
        powers.log.error({ error }, 'the MCP server could not be loaded');
        socket.destroy();
      },
    );
  };
  const options = { allowHalfOpen: true, fd: sockets.mcp, isKept: sockets.kept.includes('mcp') };
  const listener = await listenSocket(parts.socket, accept, options);
  const changed = () => void loading?.then((face) => face.toolsChanged());
  const subscriptions = [catalogue.onChange(changed), events.listen(({ topic }) => topic === 'policy' && changed())];
  add('mcp', {
    address: listener.address,
    server: listener.server,
    goOver: () => loaded?.goOver(),
    get stayers() {
      return loaded?.bridges ?? 0;
    },
    async [Symbol.asyncDispose]() {
      for (const it of subscriptions) it[Symbol.dispose]();
      const closed = listener[Symbol.asyncDispose]();
      await (await loading)?.close('the daemon is shutting down');
      await closed;
    },
  });
  if (http) add('http', await (await load()).listenHttp(http, parts));
}

/**
 * The process at the other end, which the mode of the socket admitted. Only the daemon's own user and root can read the operator's token,
 * so only their clients may report a person's answer. Other users' clients may not, and neither may a process that the kernel does not
 * identify.
 */
export function callerOf(socket: Socket): HttpCaller {
  const credentials = peerCredentials(socket);
  const trusted = [process.getuid?.(), 0];
  const mayAnswer = credentials !== undefined && trusted.includes(credentials.uid);
  const principal = principalOf({ kind: 'unix', credentials });
  return { identity: { role: 'agent', principal }, uid: credentials?.uid, pid: credentials?.pid, mayAnswer };
}
