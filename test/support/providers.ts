/** Starts daemons with the fixture provider, and makes common requests to them. */
import { rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { ProvidedData } from '../../src/base/provided-data.ts';
import type { Client } from '../../src/client/client.ts';
import type { ProvidedTool, ProviderInfo } from '../../src/services/providers/providers.ts';
import { type DaemonOptions, dataOf, startDaemon, type TestDaemon, temporaryDir, until } from './daemon.ts';

const folder = fileURLToPath(new URL('../fixtures/providers', import.meta.url));

/** The fixture's server over stdio. */
export const FIXTURE = { command: [process.execPath, `${folder}/stdio.ts`], reads: [folder] };
export const ALLOW_PROVIDERS = 'tiers:\n  external_api: { decision: allow }\n  execute: { decision: allow }\n';

/** A temporary folder for a daemon and its provider. */
export function temporaryWorkspace(): Disposable & { readonly path: string } {
  const path = temporaryDir('ws');
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

export interface ProviderArena extends AsyncDisposable {
  readonly daemon: TestDaemon;
  /** A client of an operator. */
  readonly client: Client;
  /** Information about a provider, `fix` by default. */
  info(name?: string): Promise<ProviderInfo>;
  tool(tool: string): Promise<ProvidedTool | undefined>;
  /** Waits until a provider is ready. */
  ready(name?: string): Promise<void>;
  /** The text of a call that must succeed. */
  text(tool: string, input?: object): Promise<string>;
  /** The code and message of a call that must fail. */
  error(tool: string, input?: object, options?: object): Promise<{ code: string; message: string }>;
}

/** A daemon whose provider `fix` is ready. */
export async function startProvider(
  fix: object = FIXTURE,
  { config, ...options }: DaemonOptions = {},
): Promise<ProviderArena> {
  const providers = { fix, ...(config as { providers?: object } | undefined)?.providers };
  const daemon = await startDaemon({ policy: ALLOW_PROVIDERS, ...options, config: { ...config, providers } });
  const client = await daemon.connect({ role: 'operator' });
  const info = async (name = 'fix') => {
    const { providers: all } = (await client.request('providers.list', {})) as { providers: ProviderInfo[] };
    return all.find((it) => it.name === name) as ProviderInfo;
  };
  const ready = (name?: string) => until(async () => (await info(name)).state === 'ready', 30_000);
  try {
    await ready();
  } catch (error) {
    await daemon[Symbol.asyncDispose]();
    throw new Error(daemon.log(), { cause: error });
  }
  return {
    daemon,
    client,
    info,
    ready,
    tool: async (tool) => (await info()).tools.find((it) => it.tool === tool),
    async text(tool, input = {}) {
      const { content } = await dataOf<ProvidedData>(client.call(tool, input) as never);
      return content.map((it) => (it.type === 'text' ? it.text : '')).join('');
    },
    async error(tool, input = {}, callOptions = {}) {
      const result = await client.call(tool, input, callOptions);
      if (result.success) throw new Error(`${tool} succeeded: ${JSON.stringify(result.data).slice(0, 500)}`);
      return result.error;
    },
    async [Symbol.asyncDispose]() {
      await client[Symbol.asyncDispose]();
      await daemon[Symbol.asyncDispose]();
    },
  };
}
