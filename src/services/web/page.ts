/**
 * Runs a call whose tool reads the answer to its request: the egress process fetches the page, and a host without
 * workspace and network reads it. Nothing that a server sent is parsed in this process.
 */

import { ToolError } from '../../base/errors.ts';
import { NO_VIEW } from '../../hosts/host-masks.ts';
import type { RunResult } from '../../hosts/runs.ts';
import { failed, type Outcome, type RunFacts, type RunHooks, succeeded } from '../../pipeline/outcome.ts';
import type { ClearedCall } from '../../pipeline/stage.ts';
import type { FetchedPage } from '../../tools/context/page.ts';
import type { WebRequest } from '../../tools/context/requests.ts';
import type { DaemonParts } from '../capability.ts';
import { type FetchParts, withExchanges } from './exchanges.ts';
import { busyFacts } from './http-exchange.ts';

export type PageParts = FetchParts & Pick<DaemonParts, 'hosts'>;

/** Gives what the tool made of the page, or the error of the exchange or of the tool. Throws as `withExchanges` does. */
export async function runPage(
  request: WebRequest,
  call: ClearedCall,
  { parts, hooks }: { parts: PageParts; hooks: RunHooks },
): Promise<Outcome> {
  const { limits, powers } = parts;
  const asked = { ...request, bytesMax: limits.pageBytesMax };
  const { facts, ...ended } = await withExchanges(call, parts, hooks, (exchanger) => exchanger(asked));
  if ('error' in ended) return failed(ended.error, facts);
  const { status, headers, body, truncated, finalUrl, cached } = ended.value;
  const contentType = headers['content-type'];
  const page = {
    url: finalUrl,
    status,
    body,
    isCut: truncated,
    cached,
    fetchedAt: new Date(powers.now()).toISOString(),
    contentType,
  };
  return readByTool(page, call, { parts, facts: { ...facts, ...busyFacts(ended.value, powers.now()) } });
}

/** Gives what the tool of the call made of a page; `facts` are those of the request that gave it. */
export async function readByTool(
  page: FetchedPage,
  call: ClearedCall,
  { parts, facts }: { parts: Pick<PageParts, 'hosts' | 'limits'>; facts: Partial<RunFacts> },
): Promise<Outcome> {
  try {
    const { result, pid } = await read(page, call, parts);
    const brought = { ...facts, hostPid: pid, usage: result.usage };
    return result.ok ? succeeded(result.data, brought) : failed(ToolError.fromWire(result.error), brought);
  } catch (error) {
    return failed(call.controller.signal.aborted ? call.controller.signal.reason : error, facts);
  }
}

/** Throws SANDBOX_UNAVAILABLE, HOST_CRASHED, QUEUE_FULL. */
async function read(
  page: FetchedPage,
  call: ClearedCall,
  { hosts, limits }: Pick<PageParts, 'hosts' | 'limits'>,
): Promise<RunResult> {
  const { tool, input } = call.checked;
  // The host sees no paths, so that one serves all policies of a workspace.
  const key = { tier: 'external_api', workspace: call.workspace, view: NO_VIEW } as const;
  const job = { tool: tool.name, input, page, cpuMs: limits.pageCpuMs };
  return hosts.run(key, job, { signal: call.controller.signal }).catch((error: unknown) => {
    if (!(error instanceof ToolError) || error.code !== 'HOST_CRASHED') throw error;
    throw new ToolError('HOST_CRASHED', 'the process that read the page ended while it read it', {
      suggestion: 'The page may be made for that. Nothing of this machine was within its reach.',
      details: error.extras.details ?? {},
    });
  });
}
