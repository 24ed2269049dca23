/** The network of a tool whose programs reach a few hosts alone, with the person's keys for them. */
import { ToolError } from '../../../base/errors.ts';
import { type EgressDoor, NO_HOSTS } from '../../../hosts/egress.ts';
import { parseNetworkEntry } from '../../../policy/network.ts';
import { destinationOf } from '../../../tools/context/requests.ts';
import { type SshServer, sshServerOf } from '../../../tools/context/ssh-server.ts';
import { runsInCommand } from '../../../tools/runs.ts';
import type { CheckedCall, ClearedCall } from '../../stage.ts';
import type { RemoteKeys, RemoteTerms, SshRemotes } from './key-agents.ts';

/**
 * The proposed forms of a call that can be reached. One by ssh is the only one if the person's agent holds a key, no rule denies it, and
 * the person knows the server, or has no key for the others either: the error then says what is missing.
 */
export async function reachableForms<T extends CheckedCall>(
  forms: readonly T[],
  remotes: Pick<RemoteKeys, 'ssh' | 'headersFor'>,
  isDenied: (form: T) => boolean,
): Promise<readonly T[]> {
  const urlOf = ({ checked: { tool, input } }: T) => runsInCommand(tool)?.connects?.(input as never)[0] ?? '';
  const [bySsh] = forms.filter((it) => sshServerOf(urlOf(it)));
  const others = forms.filter((it) => it !== bySsh);
  if (!bySsh || others.length === 0) return forms;
  if (isDenied(bySsh) || !(await remotes.ssh?.hasKey())) return others;
  if (await remotes.ssh?.knows(sshServerOf(urlOf(bySsh)) as SshServer)) return [bySsh];
  const keys = await Promise.all(others.map((it) => remotes.headersFor(new URL(urlOf(it))).catch(() => undefined)));
  return keys.some(Boolean) ? others : [bySsh];
}

/**
 * What such a call may connect to; undefined for other calls. A host for which the person has a key may lie on this machine or its
 * networks. Throws INTERNAL for a URL that the policy has not judged.
 */
export async function remotesOf(
  { checked: { tool, input, effects } }: ClearedCall,
  remotes: RemoteKeys,
): Promise<RemoteTerms | undefined> {
  const runs = runsInCommand(tool);
  const urls = runs?.connects?.(input as never);
  if (!urls) return undefined;
  const judged = new Set(effects.filter((it) => it.kind === 'connect').map((it) => it.target));
  const assertJudged = (target: string) => {
    if (!judged.has(target)) throw new ToolError('INTERNAL', `\`${tool.name}\` connects to what it does not declare`);
  };
  const [server] = urls.map(sshServerOf);
  if (server) {
    assertJudged(destinationOf(urls[0] as string));
    if (!remotes.ssh) throw new ToolError('UNSUPPORTED', 'no server is reached by ssh here');
    await remotes.ssh.assertReachable(server);
    return { network: NO_HOSTS, door: doorOf(server, runs?.remotePrograms ?? [], remotes.ssh) };
  }
  const found = urls.map(async (it) => {
    const target = destinationOf(it);
    assertJudged(target);
    const headers = await remotes.headersFor(new URL(it));
    const rule = { ...parseNetworkEntry(target), private: headers !== undefined };
    const [, host = '', port] = /^(.*):(\d+)$/.exec(target) ?? [];
    return {
      rule,
      key: {
        host,
        port: Number(port),
        isTls: it.startsWith('https:'),
        path: `${new URL(it).pathname.replace(/\/$/, '')}/`,
        headers,
      },
    };
  });
  const all = await Promise.all(found);
  return { network: [all.map((it) => it.rule)], keys: async () => all.map((it) => it.key) };
}

/** Runs of ssh for one call. No tool makes more than two exchanges; each run is a sandbox with processes of its own. */
const STARTS_MAX = 4;

/** The door of a call that reaches one server by ssh: it opens to a program of that server alone. */
function doorOf(server: SshServer, programs: readonly string[], ssh: SshRemotes): EgressDoor {
  const over = new AbortController();
  let started = 0;
  return {
    asks: [],
    uploadBytesMax: 0,
    async answer({ kind, host }) {
      if (kind !== 'program' || !programs.includes(host)) return { refused: 'this call talks to its server alone' };
      if (started++ >= STARTS_MAX) return { refused: `this call has started ssh ${STARTS_MAX} times` };
      try {
        return { program: ssh.start(server, host, over.signal) };
      } catch (error) {
        return { refused: (error as Error).message }; // SANDBOX_UNAVAILABLE, SHUTTING_DOWN.
      }
    },
    sent: () => over.abort(),
  };
}
