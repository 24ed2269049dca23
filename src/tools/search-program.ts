/** Checks that ripgrep is installed and runs. */
import type { Health } from './lifecycle.ts';
import type { ToolContext } from './tool.ts';

/** Throws UNSUPPORTED if ripgrep does not run. */
export const assertSearch = (ctx: ToolContext): Promise<void> => ctx.assertSearch();

/** Health check of the tools that search files. */
export async function searchHealth(ctx: ToolContext): Promise<Health> {
  await assertSearch(ctx);
  return { ok: true };
}

/** Properties of the tools that only search. */
export const searches = {
  tier: 'read_only',
  initialize: assertSearch,
  healthCheck: searchHealth,
  idempotent: true,
} as const;
