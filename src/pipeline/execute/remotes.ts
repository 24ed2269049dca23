/** The network of a tool whose programs reach a few hosts alone, with the person's keys for them. */
import { ToolError } from '../../base/errors.ts';
import { type NetworkLayer, parseNetworkEntry } from '../../policy/network.ts';
import type { RemoteKey } from '../../sandbox/egress/messages.ts';
import { destinationOf } from '../../tools/context/requests.ts';
import { runsInCommand } from '../../tools/runs.ts';
import type { ClearedCall } from '../stage.ts';

export interface RemoteKeys {
  /** Headers with the person's key for a URL; undefined without one. Throws AUTH_REQUIRED for a key that can't be read. */
  headersFor(url: URL): Promise<Readonly<Record<string, string>> | undefined>;
  /** Gives the keys that all commands may use; undefined if there are none. It never rejects. */
  readonly ofCommands: (() => Promise<readonly RemoteKey[]>) | undefined;
}

/**
 * What such a call may connect to; undefined for other calls. A host for which the person has a key may lie on this machine or its
 * networks. Throws INTERNAL for a URL that the policy has not judged.
 */
export async function remotesOf(
  { checked: { tool, input, effects } }: ClearedCall,
  remotes: RemoteKeys,
): Promise<{ readonly network: readonly NetworkLayer[]; keys(): Promise<readonly RemoteKey[]> } | undefined> {
  const urls = runsInCommand(tool)?.connects?.(input as never);
  if (!urls) return undefined;
  const judged = new Set(effects.filter((it) => it.kind === 'connect').map((it) => it.target));
  const found = urls.map(async (it) => {
    const target = destinationOf(it);
    if (!judged.has(target)) throw new ToolError('INTERNAL', `\`${tool.name}\` connects to what it does not declare`);
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
        ...(headers && { headers }),
      },
    };
  });
  const all = await Promise.all(found);
  return { network: [all.map((it) => it.rule)], keys: async () => all.map((it) => it.key) };
}
