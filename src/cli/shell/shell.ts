/**
 * `ringfence sh`: a shell for agents that bring tools of their own. What it is given runs as terminal_execute, under the
 * policy, in the sandbox, with its record and its undo.
 */
import { readFileSync } from 'node:fs';
import { constants } from 'node:os';
import { relative, resolve } from 'node:path';
import type { ToolResult } from '../../call.ts';
import { isInside } from '../../paths.ts';
import { parseJson } from '../../text/json.ts';
import { followCall } from '../call/call.ts';
import { showCall } from '../call/command-output.ts';
import { type CliCaller, connect } from '../connect.ts';
import { CliError, EXIT, exitCodeOf, harmless } from '../output.ts';
import { readShellArguments, toCommandLine } from './arguments.ts';
import { inputIfAny, wholeInput } from './standard-input.ts';

/** The longest time of a call: a shell has no limit of its own. */
const TIMEOUT_MS = 3_600_000;
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
/** What shells exit with for a command that was found but could not run, and `timeout` for one out of time. */
const SHELL_EXIT = { refused: 126, timedOut: 124 } as const;

/** The environment by which `ringfence wrap` tells its shells where they are. */
export const WRAP = { root: 'RINGFENCE_WRAP_ROOT', environment: 'RINGFENCE_WRAP_ENVIRONMENT' } as const;

/** Runs what the arguments name. Returns the exit code, as bash would. */
export async function shell(words: readonly string[], caller: CliCaller): Promise<number> {
  const asked = readShellArguments(words);
  const isScript = asked.source.kind === 'input';
  if (isScript && process.stdin.isTTY)
    throw new CliError(
      EXIT.USAGE,
      'ringfence sh runs a command (-c), a file or standard input; for a terminal: ringfence call terminal_interactive',
    );
  const { command, stdin } = toCommandLine(asked, isScript ? wholeInput() : await inputIfAny());
  if (command.trim() === '') return EXIT.OK;
  const { root, cwd } = folderOf(caller);
  await using client = await connect({ ...caller, flags: { ...caller.flags, workspace: root } });
  const interrupt = new AbortController();
  let signal: (typeof SIGNALS)[number] | undefined;
  for (const it of SIGNALS)
    process.once(it, () => {
      signal ??= it;
      interrupt.abort();
    });
  const env = exportedSince(caller.env);
  const input = { command, cwd, timeout: TIMEOUT_MS, ...(stdin !== '' && { stdin }), ...(env && { env }) };
  const running = client.call('terminal_execute', input, { signal: interrupt.signal });
  const following = followCall(running, { client, flags: {}, caller, interrupt });
  following.catch(() => {}); // Awaited below, after the result is shown.
  const result = await showCall({ callId: running.callId, result: running }, client, { isQuiet: true });
  await following;
  return signal === undefined ? shellExitCode(result) : 128 + constants.signals[signal];
}

/** The workspace, and the current folder in it. */
function folderOf({ env, cwd, flags }: CliCaller): { root: string; cwd: string } {
  const root = resolve(cwd, flags.workspace ?? env[WRAP.root] ?? cwd);
  if (!isInside(root, cwd))
    throw new CliError(SHELL_EXIT.refused, `${harmless(cwd)} is outside of the workspace ${harmless(root)}`);
  return { root, cwd: relative(root, cwd) || '.' };
}

/** Variables that the shell of a sandbox has of its own. */
const OWN: ReadonlySet<string> = new Set([
  'PATH',
  'HOME',
  'SHELL',
  'PWD',
  'OLDPWD',
  'SHLVL',
  '_',
  'LANG',
  'TZ',
  'TERM',
  'TMPDIR',
  'USER',
  'LOGNAME',
]);
const VARIABLES_MAX = 64;
const VALUE_CHARS_MAX = 32 * 1024;

/**
 * What the agent has exported since `ringfence wrap` started it. The environment of before stays outside of the sandbox: it
 * holds the person's keys.
 */
function exportedSince(env: CliCaller['env']): Record<string, string> | undefined {
  const path = env[WRAP.environment];
  if (path === undefined) return undefined;
  const before = parseJson(readFileSync(path, 'utf8')) as Record<string, string>;
  const exported = Object.entries(env).filter(
    (it): it is [string, string] =>
      it[1] !== undefined &&
      it[1] !== before[it[0]] &&
      it[1].length <= VALUE_CHARS_MAX &&
      /^[A-Za-z_][A-Za-z0-9_]{0,127}$/.test(it[0]) &&
      !OWN.has(it[0]) &&
      !it[0].startsWith('RINGFENCE_'),
  );
  return Object.fromEntries(exported.slice(0, VARIABLES_MAX));
}

function shellExitCode(result: ToolResult): number {
  if (result.success || result.error.code === 'PROGRAM_MISSING') return exitCodeOf(result);
  return result.error.category === 'TIMEOUT' ? SHELL_EXIT.timedOut : SHELL_EXIT.refused;
}
