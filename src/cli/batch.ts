/** `ringfence batch FILE|-`: runs several calls in the order of their dependencies. */
import { readFileSync } from 'node:fs';
import { text } from 'node:stream/consumers';
import { parseJson } from '../base/text/json.ts';
import type { BatchCall, BatchEstimate, BatchResult, BatchSettings, Client, ToolResult } from '../client/client.ts';
import { askPerson, hearOfPrograms, park, parseDuration } from './call/call.ts';
import { type CliCaller, connect } from './connect.ts';
import { EXIT, exitCodeOf, harmless, print, printJson, say, UsageError } from './output.ts';

export interface BatchFlags {
  readonly json?: boolean;
  readonly plan?: boolean;
  readonly failFast?: boolean;
  readonly concurrency?: string;
  readonly timeout?: string;
}

interface BatchFile {
  readonly calls: BatchCall[];
  readonly options?: BatchSettings;
}

/** Runs a batch. Returns the exit code of the first call that failed, or whose command failed. */
export async function batch(file: string, flags: BatchFlags, caller: CliCaller): Promise<number> {
  const { calls, options } = await read(file);
  const settings = { ...options, ...settingsOf(flags) };
  await using client = await connect(caller);
  if (flags.plan) {
    const plan = await client.plan(calls);
    if (flags.json) printJson(plan);
    else printPlan(plan);
    return EXIT.OK;
  }
  const interrupt = new AbortController();
  process.once('SIGINT', () => interrupt.abort());
  const over = new AbortController();
  const asking = askWhoIsHere(client, { caller, over: over.signal, interrupt });
  await hearOfPrograms(client);
  const result = await client.batch(calls, {
    ...settings,
    signal: interrupt.signal,
    onResult: (id, it) => say(`${harmless(id)}: ${toLine(it)}`),
  });
  over.abort();
  if (flags.json) printJson(result);
  else printBatch(result, calls);
  if (asking.failure) throw asking.failure;
  if (interrupt.signal.aborted) return EXIT.INTERRUPTED;
  if (asking.isUnanswered) return EXIT.DENIED;
  return result.results.map(exitCodeOf).find((it) => it !== EXIT.OK) ?? EXIT.OK;
}

/** Reads a batch file. Throws UsageError if it holds no batch. */
async function read(file: string): Promise<BatchFile> {
  const content = file === '-' ? await text(process.stdin) : readText(file);
  let parsed: unknown;
  try {
    parsed = parseJson(content);
  } catch (error) {
    throw new UsageError(`${file} is not JSON: ${(error as Error).message}`);
  }
  const request = Array.isArray(parsed) ? { calls: parsed } : parsed;
  if (typeof request !== 'object' || request === null || !Array.isArray((request as BatchFile).calls))
    throw new UsageError(`${file} is not a batch: write a list of calls, or {"calls": [...], "options": {...}}`);
  return request as BatchFile;
}

function readText(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new UsageError(`can't read ${file}: ${(error as Error).message}`);
  }
}

function settingsOf({ failFast, concurrency, timeout }: BatchFlags): BatchSettings {
  if (concurrency !== undefined && !/^[1-9]\d{0,3}$/.test(concurrency))
    throw new UsageError(`--concurrency must be a whole number of at least 1, not ${concurrency}`);
  return {
    failFast,
    ...(concurrency !== undefined && { concurrency: Number(concurrency) }),
    ...(timeout !== undefined && { timeoutMs: parseDuration(timeout) }),
  };
}

/** Asks the person about calls that need approval, one after another. Ends a call if no person can be asked. */
function askWhoIsHere(
  client: Client,
  { caller, over, interrupt }: { caller: CliCaller; over: AbortSignal; interrupt: AbortController },
) {
  let last: Promise<unknown> = Promise.resolve();
  const asking: { isUnanswered: boolean; failure?: Error } = { isUnanswered: false };
  client.onUpdate((callId, state) => {
    if (state.status !== 'blocked-on-user') return;
    const { approvalId } = state;
    const ask = async () => {
      if (over.aborted) return;
      const person = await askPerson(approvalId, { caller, over });
      if (person === 'left') interrupt.abort();
      if (person !== 'nobody') return;
      // The other calls may still run; only dependent ones can't.
      asking.isUnanswered = true;
      await park(client, callId);
    };
    last = last.then(ask).catch((error: Error) => {
      asking.failure ??= error;
      interrupt.abort();
    });
  });
  return asking;
}

function toLine(result: ToolResult): string {
  const { durationMs, cached } = result.metadata;
  if (result.success) return `${result.tool} done in ${durationMs} ms${cached ? ', from the cache' : ''}`;
  return `${result.tool} ${result.error.code}: ${harmless(result.error.message)}`;
}

function printBatch({ results, metadata, error }: BatchResult, calls: readonly BatchCall[]): void {
  if (error) return say(`${error.code}: ${harmless(error.message)}`);
  for (const [at, result] of results.entries()) {
    print(
      `${calls[at]?.id}\t${result.success ? 'ok' : result.error.code}\t${JSON.stringify(result.success ? result.data : result.error)}`,
    );
  }
  const { totalCalls, successCount, skippedCount, durationMs, levels, cacheHits, criticalPath } = metadata;
  say(
    `${successCount} of ${totalCalls} calls succeeded, ${skippedCount} were skipped, ${levels.length} levels, ${cacheHits} from the cache, ${durationMs} ms`,
  );
  if (criticalPath.length > 1) say(`critical path: ${criticalPath.map(harmless).join(' → ')}`);
}

function printPlan({ levels, criticalPath, estimatedMs, sequentialMs }: BatchEstimate): void {
  for (const [at, ids] of levels.entries()) print(`level ${at}: ${ids.map(harmless).join(', ')}`);
  print(`critical path: ${criticalPath.map(harmless).join(' → ')}`);
  print(
    estimatedMs === undefined
      ? 'no time estimate: none of these tools ran in the last day'
      : `estimated ${estimatedMs} ms; ${sequentialMs} ms one after the other`,
  );
}
