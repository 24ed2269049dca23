/** Runs calls whose statement goes to a database server. */

import type { Limits } from '../../../limits.ts';
import type { Powers } from '../../../powers.ts';
import type { DatabaseRequest, ServerAnswer } from '../../../tools/context/databases.ts';
import { runsBy } from '../../../tools/runs.ts';
import type { Preview } from '../../../tools/tool.ts';
import { failed, type Outcome, succeeded } from '../../outcome.ts';
import type { CheckedCall, ClearedCall } from '../../stage.ts';
import { timeLimitOf } from '../bounds.ts';
import type { FetchHooks } from '../exchanges.ts';

/** The database servers, as far as a call needs them. */
export interface DatabaseServers {
  /** Throws ToolError, and the reason of the signal, which ends the statement. */
  run(
    request: DatabaseRequest,
    bounds: { withinMs: number; session: string; signal: AbortSignal },
  ): Promise<ServerAnswer>;
}

export interface ServerParts {
  readonly databaseServers: DatabaseServers;
  readonly limits: Limits;
  readonly powers: Powers;
}

/** Gives the rows, or the error; `beforeStart` can still refuse the call, and what it throws is thrown. */
export async function runServer(
  request: DatabaseRequest,
  call: ClearedCall,
  { databaseServers, limits, powers }: ServerParts,
  { attempt, beforeStart }: FetchHooks,
): Promise<Outcome> {
  const { controller, checked } = call;
  await beforeStart();
  attempt.started = true;
  call.announce({ status: 'in-progress', startedAt: new Date(powers.now()).toISOString() });
  const { host, port } = request.source;
  const target = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
  const brought = { ...attempt, connected: [{ target, count: 1 }] };
  try {
    const bounds = { withinMs: timeLimitOf(call, limits), session: call.accountId, signal: controller.signal };
    const answer = await databaseServers.run(request, bounds);
    return succeeded(runsBy(checked.tool, 'databases')?.result(answer), brought);
  } catch (error) {
    if (controller.signal.aborted) throw error;
    return failed(error, brought);
  }
}

/** What a person is shown of a statement that would change rows; nothing for one that reads. */
export async function estimateAtServer(
  { asked, ...to }: DatabaseRequest,
  call: CheckedCall,
  { databaseServers, limits }: ServerParts,
): Promise<Preview> {
  if (asked.what !== 'query' || to.source.access === 'read') return { preImages: [] };
  const bounds = {
    withinMs: timeLimitOf(call, limits),
    session: call.accountId,
    signal: call.controller.signal,
  };
  const { rows } = await databaseServers.run({ ...to, asked: { what: 'estimate', query: asked.query } }, bounds);
  const lines = rows.map(([operation, table, count]) =>
    count === null
      ? `${operation} of rows that the server does not estimate\n`
      : `${operation} on ${table}: about ${count} rows\n`,
  );
  return { diff: lines.join('') || 'reads only\n', preImages: [], undo: 'none' };
}
