/** Whether a workspace has a file, as far as a call may know. */
import { ToolError } from '../../base/errors.ts';

/** Whether the call may read a file. */
export function holds(path: string, ctx: { open(path: string): Disposable }): boolean {
  try {
    ctx.open(path)[Symbol.dispose]();
    return true;
  } catch (error) {
    // No such file, or one that must not be read.
    if (error instanceof ToolError) return false;
    throw error;
  }
}
