/** What ended a call, as its result and its record say. */
import type { Verdict } from '../call.ts';
import type { Code, ToolError } from '../errors.ts';

const VERDICTS: Partial<Record<Code, Verdict>> = {
  TIMEOUT: 'timeout',
  CPU_LIMIT: 'cpu',
  MEMORY_LIMIT: 'memory',
  PROCESS_LIMIT: 'processes',
  OUTPUT_LIMIT: 'output',
  FILE_LIMIT: 'file',
  CANCELLED: 'cancelled',
  SHUTTING_DOWN: 'cancelled',
  HOST_CRASHED: 'crashed',
};

/** `used` is what the host saw, which does not know why it was told to end the call. */
export function verdictOf(error: ToolError, used: Verdict | undefined): Verdict {
  const { category } = error.toWire();
  return VERDICTS[error.code] ?? (category === 'PERMISSION' ? 'denied' : (used ?? 'ok'));
}
