/** Signs commits of tools as the person's git would, outside of the call's sandbox, after the person has said yes. */
import { NO_HOSTS } from '../../../hosts/egress.ts';
import { runsInCommand } from '../../../tools/runs.ts';
import { startPersonTime } from '../../doors/person-time.ts';
import type { Outcome } from '../../outcome.ts';
import type { ClearedCall } from '../../stage.ts';
import type { ExecuteParts } from '../parts.ts';
import type { RemoteTerms } from './key-agents.ts';

export interface Signing {
  /** Undefined for a commit that stays unsigned. */
  readonly terms: RemoteTerms | undefined;
  /** What a result says of a commit that is not signed. */
  warnings(outcome: Pick<Outcome, 'data'>): string[];
}

/** Time in which an agent has to sign. */
const AGENT_MS = 60_000;

/** A command line that seems to commit. */
const COMMITS = /\bgit\b[^\n;|&]*\bcommit\b/;

/** How a call has its commit signed; undefined for calls that make none, and for people who sign none. */
export async function signingOf(
  call: ClearedCall,
  { remoteKeys: { signer }, signingDoor, powers }: Pick<ExecuteParts, 'remoteKeys' | 'signingDoor' | 'powers'>,
): Promise<Signing | undefined> {
  const { tool, input } = call.checked;
  const signs = runsInCommand(tool)?.signs === true;
  const isCommand = !signs && COMMITS.test(tool.commandOf?.(input as never)?.command ?? '');
  if (!signer || call.options.preview || !(signs || (isCommand && !signingDoor.hasTold(call)))) return undefined;
  const key = await signer.key();
  if (!key) return undefined;
  if (isCommand)
    return { terms: undefined, warnings: ({ data }) => (data === undefined ? [] : signingDoor.tell(call)) };
  if ('problem' in key)
    return { terms: undefined, warnings: ({ data }) => (data === undefined ? [] : [unsigned(key.problem)]) };
  const over = new AbortController();
  let problem: string | undefined;
  let isAsked = false;
  const door = {
    asks: [],
    uploadBytesMax: 0,
    async answer({ kind, host }: { kind: string; host: string }) {
      if (kind !== 'program' || host !== 'sign' || isAsked) return { refused: 'this call has one commit signed' };
      isAsked = true;
      try {
        problem = await signingDoor.ask(call, key);
        if (problem !== undefined) return { refused: problem };
        // The agent may ask the person again, for a passphrase or a touch: that is no time of the call's.
        const waits = startPersonTime(call, powers).begin();
        const late = powers.after(AGENT_MS, () => over.abort());
        const end = () => {
          late.cancel();
          waits[Symbol.dispose]();
        };
        over.signal.addEventListener('abort', end, { once: true });
        return { program: key.start(over.signal) };
      } catch (error) {
        over.abort();
        problem = (error as Error).message; // SANDBOX_UNAVAILABLE, STORE_FAILED, SHUTTING_DOWN.
        return { refused: problem };
      }
    },
    sent: () => over.abort(),
  };
  return {
    terms: { network: NO_HOSTS, door, signs: true },
    warnings: ({ data }) => {
      const { signed } = (data ?? {}) as { signed?: unknown };
      return signed === false ? [unsigned(problem ?? 'the agent of the key made no signature')] : [];
    },
  };
}

const unsigned = (why: string): string => `the person signs commits, and this one is not signed: ${why}`;
