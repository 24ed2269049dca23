/**
 * Entry of a relay: in the network namespace of a background command, it passes connections at a Unix socket on to one of
 * the command's ports. It reads nothing of what it passes on. `PORT SOCKET CONNECTIONS` are its arguments.
 */
import { connect, createServer, type LookupFunction } from 'node:net';
import { relay } from '../../src/sandbox/egress/relay.ts';
import { establishPerimeter } from '../perimeter.ts';

establishPerimeter(2);

const [port, socket, connectionsMax] = process.argv.slice(2);

/** Servers listen on either loopback address; the machine's names mean nothing in this namespace. */
const lookup: LookupFunction = (_name, _options, done) =>
  done(null, [
    { address: '127.0.0.1', family: 4 },
    { address: '::1', family: 6 },
  ]);

const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
  // ECONNRESET and ECONNREFUSED: 'close' follows, and the other side is closed, too.
  const target = connect({ port: Number(port), host: 'loopback', lookup, autoSelectFamily: true, allowHalfOpen: true });
  relay(client, target);
});
server.maxConnections = Number(connectionsMax);
server.listen(socket, () => process.stdout.write('open\n'));
