/** Runs work whose duration depends on its input, in a thread that others share. */
import { createContext, Script } from 'node:vm';
import { ToolError } from '../src/base/errors.ts';
import type { BoundedWork } from '../src/tools/tool.ts';

const CALL = new Script('work()');

/**
 * Runs `work` for at most `limitMs`, then interrupts it anywhere, even within a regular expression; the objects it
 * worked on must not be used any more. Throws CPU_LIMIT, which says what the work was.
 */
export function withinTime<T>(work: () => T, limitMs: number, { what, suggestion }: BoundedWork = { what: 'this' }): T {
  try {
    return CALL.runInContext(createContext({ work }), { timeout: limitMs }) as T;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error;
    throw new ToolError('CPU_LIMIT', `${what} took longer than ${limitMs} ms and was ended`, {
      details: { limit: limitMs, enforcedBy: 'tool' },
      suggestion,
    });
  }
}
