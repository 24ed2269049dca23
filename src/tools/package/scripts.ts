/** Runs the install scripts of one package that a person allowed, in a sandbox without network. */
import { isRecord } from '../../base/text/values.ts';
import type { ToolContext } from '../tool.ts';
import { SCRIPTS } from './programs.ts';
import { reported } from './run-program.ts';
import type { Output } from './schemas.ts';

/** Gives what ran, up to the first script that failed; empty if the package has none. */
export async function runScripts(
  name: string,
  folder: string,
  ctx: ToolContext,
): Promise<NonNullable<Output['scriptsRun']>> {
  const { ran } = await reported(SCRIPTS, folder, ctx, { name }, { isOffline: true });
  return (Array.isArray(ran) ? ran.filter(isRecord) : []).map(({ script, exitCode, output }) => ({
    script: String(script).slice(0, 300),
    exitCode: Number(exitCode),
    output: String(output),
  }));
}
