/**
 * Connects a command to the egress proxy: native/listen.c is its first program, which makes a listening socket in
 * the command's network namespace, passes it to the egress proxy and executes the command. The proxy then accepts
 * connections there while the sandbox holds nothing of Ringfence: no process, no path, no descriptor.
 */
import type { ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { Writable } from 'node:stream';
import { nativeProgram } from '../native-programs.ts';
import { COMMAND_EGRESS_FDS, HOST_EGRESS_FD } from './bubblewrap.ts';

/** Port of the proxy on a command's loopback interface. */
const EGRESS_PORT = 3128;
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

/** Path to which bubblewrap writes the program, in memory. The program unlinks itself when it starts. */
const PROGRAM = '/dev/shm/.ringfence-listen';

/** What the start of a command needs if it may connect. */
export interface CommandEgress {
  /** bwrap arguments. */
  readonly args: readonly string[];
  /** Words before the command's own program. */
  readonly first: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  /** Descriptors after the status descriptor. */
  readonly stdio: readonly (number | 'pipe')[];
  give(child: ChildProcess): void;
}

/** For a command that may not connect. */
export const NO_EGRESS: CommandEgress = { args: [], first: [], environment: {}, stdio: [], give() {} };

/** The program's bytes: bubblewrap copies them, since a mount would remain in the command's sandbox. */
let program: Buffer | undefined;

/** Gives what a command with that token needs; `NO_EGRESS` without a token. */
export function egressOf(token: string | undefined, fds = COMMAND_EGRESS_FDS): CommandEgress {
  if (token === undefined) return NO_EGRESS;
  program ??= readFileSync(nativeProgram('listen'));
  const contents = { [fds.program]: program, [fds.token]: token };
  return {
    args: ['--perms', '0500', '--file', `${fds.program}`, PROGRAM],
    // The token comes through a pipe: everybody on the machine can read a command line.
    first: [PROGRAM, `${fds.line}`, `${fds.token}`, `${EGRESS_PORT}`],
    environment: EGRESS_ENVIRONMENT,
    stdio: [HOST_EGRESS_FD, 'pipe', 'pipe'],
    give(child) {
      const pipes = child.stdio as readonly unknown[];
      // EPIPE: bwrap ended before it read all; its status tells why.
      for (const [fd, content] of Object.entries(contents))
        (pipes[Number(fd)] as Writable).on('error', () => {}).end(content);
    },
  };
}
