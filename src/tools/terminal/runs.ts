/** Checks that commands run on this machine. */
import type { Health } from '../lifecycle.ts';
import type { ToolContext } from '../tool.ts';

const STDERR_CHARS_SHOWN = 200;

/** Runs `true` in a command sandbox. */
export async function commandHealth(ctx: ToolContext): Promise<Health> {
  const { exitCode, stderr } = await ctx.run(ctx.command({ command: 'true', cwd: '.', env: {} }));
  if (exitCode === 0) return { ok: true };
  return { ok: false, message: `bash ends with ${exitCode}: ${stderr.trim().slice(0, STDERR_CHARS_SHOWN)}` };
}
