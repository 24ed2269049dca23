/**
 * `ringfence sh`: a shell for agents that bring tools of their own. What it is given runs as terminal_execute, under the
 * policy, in the sandbox, with its record and its undo.
 */
import { readFileSync } from 'node:fs';
import { relative, resolve } from 'node:path';
import { isInside } from '../../base/paths.ts';
import { parseJson } from '../../base/text/json.ts';
import { type CliCaller, connect } from '../connect.ts';
import { CliError, EXIT, harmless } from '../output.ts';
import { readShellArguments, toCommandLine } from './arguments.ts';
import { converse } from './conversation.ts';
import { exportable } from './exported.ts';
import { KeptShell } from './kept-shell.ts';
import { runShellCommand, SHELL_EXIT } from './run-command.ts';
import { inputIfAny, scriptOrCommands } from './standard-input.ts';

/** The environment by which `ringfence wrap` tells its shells where they are. */
export const WRAP = { root: 'RINGFENCE_WRAP_ROOT', environment: 'RINGFENCE_WRAP_ENVIRONMENT' } as const;

/** Runs what the arguments name. Returns the exit code, as bash would. */
export async function shell(words: readonly string[], caller: CliCaller): Promise<number> {
  const asked = readShellArguments(words);
  const isScript = asked.source.kind === 'input';
  const { root, cwd } = folderOf(caller);
  const open = () => connect({ ...caller, flags: { ...caller.flags, workspace: root } });
  const exported = exportedSince(caller.env) ?? {};
  const script = isScript && !process.stdin.isTTY ? await scriptOrCommands() : undefined;
  if (isScript && script === undefined) {
    await using client = await open();
    return await converse(new KeptShell(client, caller, { root, folder: resolve(root, cwd), exported }));
  }
  const { command, stdin } = toCommandLine(asked, script ?? (await inputIfAny()));
  if (command.trim() === '') return EXIT.OK;
  await using client = await open();
  return await runShellCommand(client, caller, { command, cwd, exported, stdin });
}

/** The workspace, and the current folder in it. */
function folderOf({ env, cwd, flags }: CliCaller): { root: string; cwd: string } {
  const root = resolve(cwd, flags.workspace ?? env[WRAP.root] ?? cwd);
  if (!isInside(root, cwd))
    throw new CliError(SHELL_EXIT.refused, `${harmless(cwd)} is outside of the workspace ${harmless(root)}`);
  return { root, cwd: relative(root, cwd) || '.' };
}

/**
 * What the agent has exported since `ringfence wrap` started it. The environment of before stays outside of the sandbox: it
 * holds the person's keys.
 */
function exportedSince(env: CliCaller['env']): Record<string, string> | undefined {
  const path = env[WRAP.environment];
  if (path === undefined) return undefined;
  const before = parseJson(readFileSync(path, 'utf8')) as Record<string, string>;
  return exportable(Object.fromEntries(Object.entries(env).filter(([name, value]) => value !== before[name])));
}
