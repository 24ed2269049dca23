/** Runs calls whose statement goes to a database server. */

import { timeLimitOf } from '../../pipeline/execute/bounds.ts';
import type { TimedParts } from '../../pipeline/execute/read-only-run.ts';
import { inTime } from '../../pipeline/execute/read-only-run.ts';
import type { Runner } from '../../pipeline/execute/runner.ts';
import { failed, type Outcome, type RunHooks, succeeded } from '../../pipeline/outcome.ts';
import type { CheckedCall, ClearedCall } from '../../pipeline/stage.ts';
import type { DatabaseRequest } from '../../tools/context/databases.ts';
import { runsBy } from '../../tools/runs.ts';
import type { Preview } from '../../tools/tool.ts';
import type { DatabaseServers } from './database-servers.ts';

export type ServerParts = TimedParts & { readonly databaseServers: DatabaseServers };

/** Runs the statements of calls that name a server; those for a file of the workspace run in a host. */
export const databaseRunner = (parts: ServerParts): Runner<'databases'> => ({
  run({ request }, call, hooks) {
    const statement = request(call.checked.input as never);
    return statement && inTime(call, parts, () => runServer(statement, call, parts, hooks));
  },
  preview({ request }, call) {
    const statement = request(call.checked.input as never);
    return statement && inTime(call, parts, () => estimateAtServer(statement, call, parts));
  },
});

/** Gives the rows, or the error; `beforeStart` can still refuse the call, and what it throws is thrown. */
async function runServer(
  request: DatabaseRequest,
  call: ClearedCall,
  { databaseServers, limits, powers }: ServerParts,
  { attempt, beforeStart }: RunHooks,
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
async function estimateAtServer(
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
