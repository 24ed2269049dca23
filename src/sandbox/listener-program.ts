/**
 * How a command that may use the network gets there: native/listen.c is its first program. It makes a listening socket in
 * the command's network namespace, hands that to the egress proxy and becomes the command, so that the proxy takes
 * connections there while nothing of ours is in the sandbox: no process, no path, no descriptor.
 */
import type { ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { Writable } from 'node:stream';
import { nativeProgram } from '../native-programs.ts';
import { COMMAND_EGRESS_FDS, HOST_EGRESS_FD } from './bubblewrap.ts';

/** Where the proxy is found in a command's own loopback. */
const EGRESS_PORT = 3128;
const PROXY = `127.0.0.1:${EGRESS_PORT}`;
export const EGRESS_PROXY_URL = `http://${PROXY}`;
/** What programs of a command find the proxy by; names go to it as they are. `NODE_USE_ENV_PROXY` has Node heed the rest. */
export const EGRESS_ENVIRONMENT: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries({
    http_proxy: EGRESS_PROXY_URL,
    https_proxy: EGRESS_PROXY_URL,
    all_proxy: `socks5h://${PROXY}`,
    no_proxy: 'localhost,127.0.0.1,::1,0.0.0.0',
    node_use_env_proxy: '1',
  }).flatMap(([name, value]) => (name.startsWith('node') ? [] : [[name, value]]).concat([[name.toUpperCase(), value]])),
);

/** Where bubblewrap writes the program in a sandbox: in memory. It unlinks itself when it starts. */
const PROGRAM = '/dev/shm/.ringfence-listen';

/** What the start of a command needs so that it may connect. */
export interface CommandEgress {
  /** Of bwrap. */
  readonly args: readonly string[];
  /** Stands before the command's own program. */
  readonly first: readonly string[];
  readonly environment: Readonly<Record<string, string>>;
  /** Descriptors after that of its status. */
  readonly stdio: readonly (number | 'pipe')[];
  give(child: ChildProcess): void;
}

/** Of a command that may connect to nothing. */
export const NO_EGRESS: CommandEgress = { args: [], first: [], environment: {}, stdio: [], give() {} };

/** The program's bytes: bubblewrap copies them, since a mount would stay in the command's sandbox. */
let program: Buffer | undefined;

/** For a command of that token; nothing for one without. */
export function egressOf(token: string | undefined, fds = COMMAND_EGRESS_FDS): CommandEgress {
  if (token === undefined) return NO_EGRESS;
  program ??= readFileSync(nativeProgram('listen'));
  const contents = { [fds.program]: program, [fds.token]: token };
  return {
    args: ['--perms', '0500', '--file', `${fds.program}`, PROGRAM],
    // The token comes by a pipe: what stands on a command line everybody on the machine can read.
    first: [PROGRAM, `${fds.line}`, `${fds.token}`, `${EGRESS_PORT}`],
    environment: EGRESS_ENVIRONMENT,
    stdio: [HOST_EGRESS_FD, 'pipe', 'pipe'],
    give(child) {
      const pipes = child.stdio as readonly unknown[];
      // EPIPE: bwrap ended before it was read, and says why.
      for (const [fd, content] of Object.entries(contents))
        (pipes[Number(fd)] as Writable).on('error', () => {}).end(content);
    },
  };
}
