/**
 * Runs a program with the socket of the person's key agent, in a sandbox of its own: it sees the system, the socket and a few files, and
 * no workspace; it reaches the hosts named for it, and talks to one call by a pipe of the egress process. An agent signs what it is
 * asked to, so nothing runs there but the words given here.
 */
import { signalQuietly } from '../../base/quiet/signals.ts';
import type { Egress } from '../../hosts/egress.ts';
import type { NetworkLayer } from '../../policy/network.ts';
import { EGRESS_PROXY_URL } from '../../sandbox/door.ts';
import { NO_MASKS } from '../../sandbox/masks.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { connecting, programAt } from '../../tools/context/program-pipe.ts';

export interface LendParts {
  readonly sandbox: Sandbox;
  readonly egress: Egress;
}

export interface LentProgram {
  /** Lines of bash, with the pipe as descriptor 3 and `words` as arguments. */
  readonly script: string;
  readonly words: readonly string[];
  readonly places: readonly { readonly path: string; readonly at: string }[];
  readonly network: NetworkLayer;
  /** Ends it. */
  readonly until: AbortSignal;
}

const BOUNDS = { memoryMb: 512, tasks: 64 };

/** Starts it; gives the token by which the proxy knows its end of the pipe. Throws SANDBOX_UNAVAILABLE. */
export function lend({ script, words, places, network, until }: LentProgram, { sandbox, egress }: LendParts): string {
  const { token, line, close } = egress.attach({ layers: [network] });
  const program = [
    '/bin/bash',
    '-c',
    `export http_proxy=${EGRESS_PROXY_URL}${connecting(programAt('pipe'))}${script}`,
    'lent',
    ...words,
  ];
  const request = { program, view: { reads: [], masks: NO_MASKS, places }, bounds: BOUNDS, egressToken: token };
  try {
    const stdio = ['ignore' as const, 'ignore' as const, 'ignore' as const, 'ignore' as const, line.stream];
    const { child } = sandbox.startProvider({ ...request, hasSockets: true }, stdio);
    const end = () => signalQuietly(child.pid as number, 'SIGKILL');
    until.addEventListener('abort', end, { once: true });
    const ended = () => {
      until.removeEventListener('abort', end);
      void close();
    };
    child.once('exit', ended).once('error', ended);
    if (until.aborted) end();
  } catch (error) {
    void close();
    throw error;
  }
  return token;
}
