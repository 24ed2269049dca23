/** Whether the program that searches files is there and runs. */
import type { Health } from './lifecycle.ts';
import type { ToolContext } from './tool.ts';

/** Throws UNSUPPORTED. */
export const assertSearch = (ctx: ToolContext): Promise<void> => ctx.assertSearch();

/** Of the tools that search files. */
export async function searchHealth(ctx: ToolContext): Promise<Health> {
  await assertSearch(ctx);
  return { ok: true };
}
