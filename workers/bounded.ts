/** Runs work whose duration depends on its input, in a thread that others share. */
import { createContext, Script } from 'node:vm';
import { ToolError } from '../src/base/errors.ts';

const CALL = new Script('work()');

/**
 * Runs `work` for at most `limitMs`, then interrupts it anywhere, even within a regular expression; the objects it
 * worked on must not be used any more. Throws CPU_LIMIT.
 */
export function withinTime<T>(work: () => T, limitMs: number): T {
  try {
    return CALL.runInContext(createContext({ work }), { timeout: limitMs }) as T;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error;
    throw new ToolError('CPU_LIMIT', `this took longer than ${limitMs} ms and was ended`, {
      details: { limit: limitMs, enforcedBy: 'tool' },
    });
  }
}
