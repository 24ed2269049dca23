/**
 * Connects a sandbox to the egress proxy: native/door.c makes its network, starts bubblewrap in it, and hands a listening socket of
 * that network to the proxy at the first connection. The sandbox holds nothing of Ringfence: no process, no path, no descriptor.
 */
import type { ChildProcess } from 'node:child_process';
import type { Duplex, Writable } from 'node:stream';
import { nativeProgram } from '../base/native-programs.ts';
import { COMMAND_EGRESS_FDS, HOST_EGRESS_FD } from './bubblewrap.ts';

/** Port of the proxy on a command's loopback interface, as native/door.c has it. */
export const EGRESS_PORT = 3128;
const PROXY = `127.0.0.1:${EGRESS_PORT}`;
export const EGRESS_PROXY_URL = `http://${PROXY}`;
/** Variables that point a command's programs to the proxy, which resolves names. `NODE_USE_ENV_PROXY` makes Node heed the rest. */
export const EGRESS_ENVIRONMENT: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries({
    http_proxy: EGRESS_PROXY_URL,
    https_proxy: EGRESS_PROXY_URL,
    all_proxy: `socks5h://${PROXY}`,
    no_proxy: 'localhost,127.0.0.1,::1,0.0.0.0',
    node_use_env_proxy: '1',
  }).flatMap(([name, value]) => (name.startsWith('node') ? [] : [[name, value]]).concat([[name.toUpperCase(), value]])),
);

/** What the start of a sandbox needs if it has the proxy. */
export interface Door {
  /** Words before bubblewrap's. */
  readonly words: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  /** Descriptors that it inherits, in this order. */
  readonly stdio: readonly (number | 'pipe')[];
  /** Tells which call the sandbox's connections are of. Before that none is served. */
  give(child: ChildProcess, token: string): void;
  /** Hears, from the start of the child to its end, at which ports of its loopback nothing listened that it connected to. */
  hear(child: ChildProcess): ReadonlySet<number>;
}

/** Ports of one command that are heard of, as many as native/door.c writes. */
const REFUSED_MAX = 32;

/** For a sandbox without the proxy. */
export const NO_DOOR: Door = { words: [], environment: {}, stdio: [], give() {}, hear: () => new Set() };

/** The door of a sandbox, at those descriptors; `services` are the ports of its loopback that lead to services of the machine. */
export const doorAt = (
  fds: { readonly line: number; readonly token: number } = COMMAND_EGRESS_FDS,
  services: readonly number[] = [],
): Door => ({
  // The token comes through a pipe: everybody on the machine can read a command line.
  words: [nativeProgram('door'), `${fds.line}`, `${fds.token}`, services.join() || '-'],
  environment: EGRESS_ENVIRONMENT,
  stdio: [HOST_EGRESS_FD, 'pipe'],
  give(child, token) {
    // EPIPE: bubblewrap has ended; its status tells why.
    (child.stdio[fds.token] as Writable).on('error', () => {}).end(token);
  },
  hear(child) {
    const ports = new Set<number>();
    let rest = '';
    (child.stdio[fds.token] as Duplex).setEncoding('latin1').on('data', (chunk: string) => {
      const lines = (rest + chunk).split('\n');
      rest = lines.pop() ?? '';
      for (const it of lines) if (ports.size < REFUSED_MAX) ports.add(Number(it));
    });
    return ports;
  },
});
