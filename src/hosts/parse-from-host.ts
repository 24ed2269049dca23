/** Checks the shape of what hosts send: a host may be compromised. */
import { isCode } from '../base/errors.ts';
import { isRecord } from '../base/text/values.ts';
import {
  type ChildAsk,
  type FromHost,
  type HostOutput,
  isLogLevel,
  type JobProgress,
  type JobResult,
  type LogLine,
  type ThreadClock,
  type ThreadEnded,
} from './job.ts';

/**
 * Checks the shape of a message from a host, and trusts nothing else: a compromised host can lie about its own calls
 * only. Undefined for an invalid message.
 */
export function parseFromHost(message: unknown): FromHost | undefined {
  if (!isRecord(message)) return undefined;
  const { up, ready, done, output, kept, ask, log, progress, heard, threadEnded, clocks, told } = message;
  if (up === true) return { up };
  if (ready === true) return { ready };
  if (isRecord(output) && isOutput(output)) return { output };
  if (typeof kept === 'number' && Number.isSafeInteger(kept) && kept >= 0) return { kept };
  if (typeof heard === 'number') return { heard };
  if (isRecord(threadEnded) && isThreadEnded(threadEnded)) return { threadEnded };
  if (Array.isArray(clocks) && clocks.every((it) => isRecord(it) && isThreadClock(it))) return { clocks };
  if (isRecord(ask) && isAsk(ask)) return { ask };
  if (isRecord(log) && isLog(log)) return { log };
  if (isRecord(progress) && isProgress(progress)) return { progress };
  if (told !== undefined) return { told };
  if (isRecord(done) && typeof done.id === 'number' && isResult(done.result))
    return { done: { id: done.id, result: done.result } };
  return undefined;
}

const isOutput = (it: Record<string, unknown>): it is Record<string, unknown> & HostOutput =>
  typeof it.id === 'number' && (it.stream === 'stdout' || it.stream === 'stderr') && it.data instanceof Uint8Array;

const isThreadEnded = (it: Record<string, unknown>): it is Record<string, unknown> & ThreadEnded =>
  Number.isSafeInteger(it.thread) && Number.isSafeInteger(it.begun) && typeof it.outOfMemory === 'boolean';

const isThreadClock = (it: Record<string, unknown>): it is Record<string, unknown> & ThreadClock =>
  [it.thread, it.begun].every(Number.isSafeInteger) && [it.cpuMs, it.begunMs].every(Number.isFinite);

const isAsk = (it: Record<string, unknown>): it is Record<string, unknown> & ChildAsk =>
  typeof it.id === 'number' && Number.isSafeInteger(it.call) && typeof it.tool === 'string';

const isLog = (it: Record<string, unknown>): it is Record<string, unknown> & LogLine & { id: number } =>
  typeof it.id === 'number' && isLogLevel(it.level) && typeof it.text === 'string';
const isProgress = (it: Record<string, unknown>): it is Record<string, unknown> & JobProgress =>
  typeof it.id === 'number' &&
  typeof it.done === 'number' &&
  ['number', 'undefined'].includes(typeof it.total) &&
  (it.message === undefined || (typeof it.message === 'string' && it.message.length <= PROGRESS_CHARS_MAX));

/** The most characters of a progress message. */
export const PROGRESS_CHARS_MAX = 300;

function isResult(it: unknown): it is JobResult {
  if (!isRecord(it) || !isRecord(it.usage) || typeof it.usage.cpuMs !== 'number') return false;
  if (it.ok === true) return 'data' in it;
  return it.ok === false && isRecord(it.error) && isCode(it.error.code) && typeof it.error.message === 'string';
}
