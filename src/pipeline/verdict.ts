/** The verdict on a call for its result and its record: what ended the call. */
import type { Verdict } from '../base/call.ts';
import type { Code, ToolError } from '../base/errors.ts';

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

/** `used` is the host's verdict; the host does not know why it was told to end the call. */
export function verdictOf(error: ToolError, used: Verdict | undefined): Verdict {
  const { category } = error.toWire();
  return VERDICTS[error.code] ?? (category === 'PERMISSION' ? 'denied' : (used ?? 'ok'));
}
