/** Listening on a port, at a new socket or at one that the daemon before passed on. */
import type { AddressInfo, Server } from 'node:net';

export interface TcpAddress {
  readonly host: string;
  /** 0 lets the system choose. */
  readonly port: number;
  /** The socket that the daemon before listened at; used if it has the port. */
  readonly fd?: number | undefined;
}

/** Listens; gives the address. Rejects with the system's error if the address is not available. */
export async function listenTcp(server: Server, { host, port, fd }: TcpAddress): Promise<AddressInfo> {
  if (fd !== undefined) {
    const handed = await listening(server, { fd });
    if (port === 0 || handed.port === port) return handed;
    // The port in config.yaml has changed.
    await new Promise((resolve) => server.close(resolve));
  }
  return await listening(server, { host, port });
}

function listening(server: Server, at: { fd: number } | { host: string; port: number }): Promise<AddressInfo> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(at, () => {
      server.off('error', reject);
      resolve(server.address() as AddressInfo);
    });
  });
}
