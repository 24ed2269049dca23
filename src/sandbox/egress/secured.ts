/** TLS over a connection that was judged before. */
import type { Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';

/** Speaks TLS over a connection to `host`, whose certificate is checked. Rejects if it can't be secured. */
export async function secured(socket: Socket, host: string, ca?: string): Promise<Socket> {
  const isName = !/^[\d.]+$|:/.test(host);
  // A certificate is checked for `servername`, or for `host` if that is an address.
  const expected = isName ? { servername: host } : { host };
  const outer = connectTls({ socket, ALPNProtocols: ['http/1.1'], ...expected, ca });
  await new Promise<void>((resolve, reject) => {
    outer.once('secureConnect', resolve);
    outer.once('error', reject);
    socket.once('close', () => reject(new Error('the connection was closed while it was secured')));
  });
  return outer;
}
