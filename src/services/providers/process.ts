/** One run of a provider: its process from start to end, and its reports. */

import { ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import { onAbort } from '../../base/powers.ts';
import { readSecret, type SecretSource } from '../../base/secret-source.ts';
import type { Egress } from '../../hosts/egress.ts';
import { Host } from '../../hosts/host.ts';
import { end as endOf } from '../../hosts/shutdown.ts';
import { type NetworkLayer, parseNetworkEntry, ruleOfServer } from '../../policy/network.ts';
import { EGRESS_ENVIRONMENT } from '../../sandbox/door.ts';
import { BARE_ENVIRONMENT, type Stdio } from '../../sandbox/launcher.ts';
import type { Masks } from '../../sandbox/masks.ts';
import type { DaemonParts } from '../capability.ts';
import { type ListedTools, type ProviderSetup, toldByProvider } from './messages.ts';
import type { ProviderSettings } from './settings.ts';

export type ProcessParts = Pick<DaemonParts, 'sandbox' | 'egress' | 'environment' | 'limits' | 'powers'> & {
  /** Node and its arguments for a provider host. */
  readonly program: readonly string[];
  readonly version: string;
};

export interface ProcessOptions {
  readonly settings: ProviderSettings;
  readonly masks: Masks;
  readonly signal: AbortSignal;
  /** Called each time the server lists its tools. */
  readonly onTools: (told: ListedTools, host: Host) => void;
}

/** Runs the provider until it ends and returns the reason. Throws SANDBOX_UNAVAILABLE, QUEUE_FULL. */
export async function runProvider(options: ProcessOptions, parts: ProcessParts): Promise<string> {
  const layers = networkOf(options.settings);
  if (layers.length === 0) return runIn(undefined, options, parts);
  let reason = '';
  await parts.egress.lend([layers], options.signal, async (lease) => {
    reason = await runIn(lease, options, parts);
    return {};
  });
  return reason;
}

type Lease = Parameters<Parameters<Egress['lend']>[2]>[0];

async function runIn(lease: Lease | undefined, options: ProcessOptions, parts: ProcessParts): Promise<string> {
  const { settings, signal, onTools } = options;
  const { limits, powers } = parts;
  let reason = '';
  let lastListMs = -Infinity;
  const hasTools = Promise.withResolvers<void>();
  const host = new Host({
    // The sandbox of a provider does not depend on the tier.
    tier: 'external_api',
    workspace: workspaceOf(settings) ?? '',
    limits,
    powers,
    start: (stdio) => start(stdio, lease?.token, options, parts),
    egress: lease?.line.stream,
    setup: {
      tier: 'external_api',
      view: { key: '', rules: [], home: '' },
      limits,
      provider: setupOf(settings, parts),
    },
    onTold: (told) => {
      const it = toldByProvider.parse(told);
      if ('failed' in it) {
        reason ||= it.failed;
        return;
      }
      const now = powers.monotonicMs();
      if (now - lastListMs < limits.providerListMs) throw new Error('it lists its tools too often');
      lastListMs = now;
      hasTools.resolve();
      onTools(it, host);
    },
  });
  const end = (why: string) => {
    reason ||= why;
    void endOf(host);
  };
  // Without the proxy the provider would wait for answers that never come.
  const lost = () => end('the egress proxy ended');
  const late = powers.after(limits.providerStartMs, () => end(`it was not ready within ${limits.providerStartMs} ms`));
  void hasTools.promise.then(() => late.cancel());
  using _ = onAbort(signal, () => end((signal.reason as Error).message));
  lease?.line.stream.once('close', lost);
  try {
    await host.ready;
    await host.gone;
    return reason || 'its process ended';
  } finally {
    late.cancel();
    lease?.line.stream.off('close', lost);
    await endOf(host);
  }
}

function start(
  stdio: Stdio,
  egressToken: string | undefined,
  { settings, masks }: ProcessOptions,
  { sandbox, limits, program }: ProcessParts,
) {
  const workspace = workspaceOf(settings);
  const isWritable = settings.tier === 'write' || settings.tier === 'execute';
  const reads = settings.kind === 'stdio' ? settings.reads : [];
  return sandbox.startProvider(
    {
      program,
      view: { reads, masks, ...(workspace !== undefined && { workspace: { path: workspace, isWritable } }) },
      bounds: { memoryMb: memoryMbOf(settings, limits), tasks: limits.providerTasksMax },
      egressToken,
    },
    stdio,
  );
}

export const workspaceOf = (settings: ProviderSettings): string | undefined =>
  settings.kind === 'stdio' ? settings.workspace : undefined;

const memoryMbOf = (settings: ProviderSettings, { providerMemoryMb }: Limits): number =>
  (settings.kind === 'stdio' ? settings.memoryMb : undefined) ?? providerMemoryMb;

/** The network rules of a provider; a remote server gets only its own address. Throws an Error for an invalid entry. */
export function networkOf(settings: ProviderSettings): NetworkLayer {
  if (settings.kind === 'stdio') return settings.network.map(parseNetworkEntry);
  return [ruleOfServer(new URL(settings.url), settings.private)];
}

/** The setup of a provider host. Reads secrets at each start, so that replaced ones take effect. Throws PROVIDER_UNAVAILABLE. */
function setupOf(settings: ProviderSettings, { environment, version, limits, sandbox }: ProcessParts): ProviderSetup {
  const { name, protocol, outputBytes } = settings;
  const sources = settings.kind === 'stdio' ? settings.env : settings.headers;
  const values = Object.entries(sources).map(([key, source]) => ({ key, ...textOf(source, name) }));
  const own = Object.fromEntries(values.map(({ key, text }) => [key, text]));
  const server =
    settings.kind === 'http'
      ? { url: settings.url, headers: own }
      : {
          command: settings.command,
          cwd: settings.workspace ?? '/tmp',
          env: { ...BARE_ENVIRONMENT, ...environment, ...(settings.network.length > 0 && EGRESS_ENVIRONMENT), ...own },
        };
  const secrets = values.flatMap(({ secret = '' }) => (secret.length >= SECRET_CHARS_MIN ? [secret] : []));
  const isWatched = sandbox.confinement.cgroup === 'none';
  return {
    name,
    protocol,
    server,
    secrets,
    outputBytes,
    version,
    ...(isWatched && { memoryMb: memoryMbOf(settings, limits) }),
  };
}

/** Length from which secrets are redacted; shorter ones would also match unrelated text. */
const SECRET_CHARS_MIN = 8;

function textOf(source: SecretSource, provider: string): { text: string; secret?: string } {
  try {
    return readSecret(source);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'an error';
    const file = 'file' in source ? source.file : 'a value';
    throw new ToolError('PROVIDER_UNAVAILABLE', `provider ${provider}: ${file} can't be read: ${code}`);
  }
}
