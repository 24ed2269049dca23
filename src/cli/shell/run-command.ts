/** Runs one command of a shell as terminal_execute, with its output, its signals and the exit code that bash would give. */
import { constants } from 'node:os';
import type { ToolResult } from '../../base/call.ts';
import type { Client } from '../../client/client.ts';
import { followCall } from '../call/call.ts';
import { showCall } from '../call/command-output.ts';
import type { CliCaller } from '../connect.ts';
import { exitCodeOf } from '../output.ts';
import type { ReportedOutput } from './kept-state.ts';

/** The longest time of a call: a shell has no limit of its own. */
const TIMEOUT_MS = 3_600_000;
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
/** Exit codes of shells for a command that was found but could not run, and of `timeout` for one out of time. */
export const SHELL_EXIT = { refused: 126, timedOut: 124 } as const;

export interface ShellCommand {
  readonly command: string;
  /** Relative to the workspace. */
  readonly cwd: string;
  readonly exported: Readonly<Record<string, string>>;
  readonly stdin?: string;
  /** Takes what the command reports at the end of its output. */
  readonly report?: ReportedOutput | undefined;
}

/** Returns the exit code. A signal ends the command, not this process. */
export async function runShellCommand(client: Client, caller: CliCaller, it: ShellCommand): Promise<number> {
  const interrupt = new AbortController();
  let signal: (typeof SIGNALS)[number] | undefined;
  const stops = SIGNALS.map((name) => {
    const stop = () => {
      signal ??= name;
      interrupt.abort();
    };
    process.on(name, stop);
    return () => process.off(name, stop);
  });
  try {
    const { command, cwd, exported, stdin = '', report } = it;
    const env = Object.keys(exported).length > 0 ? { env: exported } : {};
    const input = { command, cwd, timeout: TIMEOUT_MS, stdin: stdin || undefined, ...env };
    const running = client.call('terminal_execute', input, { signal: interrupt.signal });
    const following = followCall(running, { client, flags: {}, caller, interrupt });
    following.catch(() => {}); // Awaited below, after the result is shown.
    const shown = report ? { output: (id: string) => report.shown(client.output(id)) } : client;
    const ended = report ? running.then(withoutOutput) : running;
    const result = await showCall({ callId: running.callId, result: ended }, shown, { isQuiet: true });
    await following;
    return signal === undefined ? shellExitCode(result) : 128 + constants.signals[signal];
  } finally {
    for (const stop of stops) stop();
  }
}

/** The output was shown, and the result has the report in it. */
const withoutOutput = (result: ToolResult): ToolResult =>
  result.success ? { ...result, data: { ...(result.data as object), stdout: '', stderr: '' } } : result;

function shellExitCode(result: ToolResult): number {
  if (result.success) return exitCodeOf(result);
  return result.error.category === 'TIMEOUT' ? SHELL_EXIT.timedOut : SHELL_EXIT.refused;
}
