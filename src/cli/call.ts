import type { Client, RunningCall } from '../client.ts';
import { type Caller, connect } from './connect.ts';
import { CliError, EXIT, exitCodeOf, harmless, printJson, printResult } from './output.ts';

export interface CallFlags {
  readonly timeout?: string;
  readonly json?: boolean;
  readonly progress?: boolean;
  readonly preview?: boolean;
}

/** `ringfence call TOOL [JSON | key=value …]`; gives the exit code. */
export async function call(tool: string, words: readonly string[], flags: CallFlags, caller: Caller): Promise<number> {
  if (flags.preview) throw new CliError(EXIT.USAGE, '--preview is not supported yet');
  const timeoutMs = flags.timeout === undefined ? undefined : parseDuration(flags.timeout);
  await using client = await connect(caller);
  const input = await parseInput(client, tool, words);
  const interrupt = new AbortController();
  process.once('SIGINT', () => interrupt.abort());
  const running = client.call(tool, input, {
    ...(timeoutMs !== undefined && { timeoutMs }),
    ...(flags.progress && { progress: true }),
    signal: interrupt.signal,
  });
  if (flags.progress) await showProgress(running);
  const result = await running;
  if (flags.json) printJson(result);
  else printResult(result);
  return interrupt.signal.aborted ? EXIT.INTERRUPTED : exitCodeOf(result);
}

async function showProgress(running: RunningCall<unknown>): Promise<void> {
  for await (const it of running) {
    if (it.kind === 'output') process.stderr.write(harmless(Buffer.from(it.data).toString('utf8')));
    else process.stderr.write(`ringfence: ${it.state.status}\n`);
  }
}

const UNITS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

/** `250ms`, `5s`, `2m`, `1h`, or a number of seconds. */
function parseDuration(text: string): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h)?$/.exec(text);
  const ms = Math.round(Number(match?.[1]) * (UNITS[match?.[2] ?? 's'] as number));
  if (!match || ms < 1)
    throw new CliError(EXIT.USAGE, `--timeout takes a duration such as 250ms, 5s or 2m, not ${text}`);
  return ms;
}

/** One JSON object, or key=value words whose values are read as the tool's schema says. */
async function parseInput(client: Client, tool: string, words: readonly string[]): Promise<unknown> {
  if (words.length === 0) return {};
  if (words.length === 1 && words[0]?.trimStart().startsWith('{')) return parseJson(words[0]);
  const info = (await client.tools()).find((it) => it.name === tool || it.aliases.includes(tool));
  const properties =
    (info?.inputSchema as { properties?: Record<string, { type?: string }> } | undefined)?.properties ?? {};
  const pairs = words.map((word) => {
    const at = word.indexOf('=');
    if (at < 1) throw new CliError(EXIT.USAGE, `input is one JSON object or key=value words; \`${word}\` is neither`);
    const key = word.slice(0, at);
    const value = word.slice(at + 1);
    return [key, properties[key]?.type === 'string' ? value : parseLoosely(value)];
  });
  return Object.fromEntries(pairs);
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new CliError(EXIT.USAGE, `input is not JSON: ${(error as Error).message}`);
  }
}

function parseLoosely(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text; // A word that is not JSON is itself.
  }
}
