import type { ToolResult } from '../../base/call.ts';
import { systemPowers } from '../../base/powers.ts';
import { type Client, RemoteError, type RunningCall } from '../../client/client.ts';
import { type CliCaller, connect } from '../connect.ts';
import { EXIT, exitCodeOf, harmless, print, printJson, say, UsageError } from '../output.ts';
import { askInline } from '../questions/prompt.ts';
import { LifeLine } from '../screen/life-line.ts';
import { showCall } from './command-output.ts';
import { readInput } from './input.ts';
import { printResult } from './printed-result.ts';
import { printPreview } from './shown-preview.ts';

export interface CallFlags {
  readonly timeout?: string;
  readonly json?: boolean;
  readonly progress?: boolean;
  readonly preview?: boolean;
  readonly detach?: boolean;
}

/** `ringfence call TOOL [JSON | key=value …]`. Returns the exit code. */
export async function call(
  tool: string,
  words: readonly string[],
  flags: CallFlags,
  caller: CliCaller,
): Promise<number> {
  assertTimeout(flags);
  await using client = await connect(caller);
  const input = await readInput(words, { client, tool, cwd: caller.cwd });
  if (flags.detach) return await detach(client, { tool, input, timeoutMs: timeoutOf(flags) }, flags);
  const exitCode = await runCall(client, { tool, input }, { flags, caller });
  await sayKept(client);
  return exitCode;
}

/** Says where the workspace is kept that a fleet has made for the session. */
async function sayKept(client: Client): Promise<void> {
  const { placed } = (await client.hello).session;
  if (!placed) return;
  const minutes = Math.round(placed.keptMs / 60_000);
  say(
    harmless(
      `changes are kept for ${minutes} min as ${placed.name}; to get them: ringfence fleet fetch ${placed.name}`,
    ),
  );
}

interface RunParts {
  readonly flags: CallFlags;
  readonly caller: CliCaller;
  /** Prints the result, unless it is printed as JSON; by default as that of any call. */
  show?(result: ToolResult): void;
}

const timeoutOf = ({ timeout }: CallFlags): number | undefined =>
  timeout === undefined ? undefined : parseDuration(timeout);

/** Refuses a wrong duration before a daemon is started for the call. Throws UsageError. */
export const assertTimeout = (flags: CallFlags): void => void timeoutOf(flags);

/** Runs a call to its end, with Ctrl-C and questions of the policy. Returns the exit code. */
export async function runCall(
  client: Client,
  { tool, input }: { readonly tool: string; readonly input: unknown },
  { flags, caller, show }: RunParts,
): Promise<number> {
  const timeoutMs = timeoutOf(flags);
  const interrupt = new AbortController();
  process.once('SIGINT', () => interrupt.abort());
  await hearOfPrograms(client);
  const running = client.call(tool, input, {
    timeoutMs,
    preview: flags.preview,
    progress: flags.progress,
    signal: interrupt.signal,
  });
  using life = new LifeLine();
  const following = followCall(running, { client, flags, caller, interrupt, life });
  sayIfPaused(running, client, life);
  following.catch(() => {}); // Awaited below, after the result is shown.
  const isQuiet = flags.json || show !== undefined;
  const result = await (isQuiet ? running : showCall({ callId: running.callId, result: running }, client, { life }));
  life[Symbol.dispose]();
  const asked = await following;
  if (!flags.json && result.success && result.preview) printPreview(result.preview);
  if (flags.json) printJson(result);
  else show?.(result);
  if (asked === 'nobody') return EXIT.DENIED;
  return interrupt.signal.aborted ? EXIT.INTERRUPTED : exitCodeOf(result);
}

interface DetachedStart {
  readonly tool: string;
  readonly input: unknown;
  readonly timeoutMs: number | undefined;
}

/**
 * Starts a call that continues without this process and prints its id; a call that fails at once, for example by a refusal, is reported
 * like any other.
 */
async function detach(client: Client, { tool, input, timeoutMs }: DetachedStart, flags: CallFlags): Promise<number> {
  const running = client.call(tool, input, { timeoutMs, detached: true, progress: true });
  const { callId } = running;
  running.catch(() => {}); // This process exits before the call is over.
  await hasBegun(running);
  const { state, result } = await client.record(callId);
  if (result && !result.success) {
    if (flags.json) printJson(result);
    else printResult(result);
    return exitCodeOf(result);
  }
  if (flags.json) printJson({ callId, state });
  else print(callId);
  const how =
    state.status === 'blocked-on-user' ? 'waits for approval (ringfence approvals)' : 'runs in the background';
  say(`${how}; for its result: ringfence result ${callId}; for its output: ringfence logs ${callId} --follow`);
  return EXIT.OK;
}

/** Settles when the call runs, waits for a person or is refused; after DETACH_WAIT_MS at the latest, if it is queued. */
async function hasBegun(running: RunningCall<unknown>): Promise<void> {
  const late = AbortSignal.timeout(DETACH_WAIT_MS);
  const isLate = new Promise<void>((resolve) => late.addEventListener('abort', () => resolve()));
  const begins = async () => {
    for await (const it of running) if (it.kind === 'output' || it.state.status !== 'queued') return;
  };
  await Promise.race([begins(), isLate]);
}

const DETACH_WAIT_MS = 1000;

/** Subscribes to the calls that programs make; only subscribers receive their states. */
export const hearOfPrograms = (client: Client): Promise<unknown> =>
  client.request('events.subscribe', { topics: ['calls'] });

interface FollowedCall {
  readonly client: Client;
  readonly flags: CallFlags;
  readonly caller: CliCaller;
  /** Cancels the call. */
  readonly interrupt: AbortController;
  /** Says what the call does. */
  readonly life?: LifeLine;
}

/** Says that the daemon is paused, if the call still waits for its turn after a second. */
function sayIfPaused(running: RunningCall<unknown>, client: Client, life: LifeLine): void {
  const look = async () => {
    const { state } = await client.record(running.callId);
    const { paused } = (await client.request('status', {})) as { paused?: { by: string } };
    if (state.status !== 'queued' || !paused) return;
    const words = `paused by ${harmless(paused.by)}: no call begins until \`ringfence resume\``;
    if (process.stderr.isTTY) life.text = words;
    else say(words);
  };
  const timer = systemPowers().after(PAUSE_LOOK_MS, () => void look().catch(() => {})); // The call or the connection is over.
  const end = () => timer.cancel();
  running.then(end, end);
}

const PAUSE_LOOK_MS = 1000;

/** What a call does, in words. */
const LIFE: Readonly<Record<string, string>> = {
  queued: 'queued · ringfence ps',
  'blocked-on-user': 'waiting for you · ringfence approvals',
  'in-progress': 'running',
};

/** Shows progress if requested, and asks the person at the terminal when the policy requires it. */
export async function followCall(
  running: RunningCall<unknown>,
  { client, flags, caller, interrupt, life }: FollowedCall,
): Promise<'nobody' | undefined> {
  let asked: 'nobody' | undefined;
  // A question must not outlive its call, since an answer would have no effect.
  const over = new AbortController();
  const end = () => over.abort();
  running.then(end, end);
  // One at a time: a program may have several waiting calls.
  let last = Promise.resolve();
  const ask = async (callId: string, approvalId: string) => {
    if (over.signal.aborted) return;
    const asking = askPerson(approvalId, { caller, over: over.signal });
    const person = await (life ? life.holdWhile(asking) : asking);
    if (person === 'left') interrupt.abort();
    if (person !== 'nobody') return;
    asked = person;
    await park(client, callId);
  };
  client.onUpdate((callId, state) => {
    if (life) life.text = LIFE[state.status] ?? state.status;
    if (state.status !== 'blocked-on-user') return;
    last = last.then(() => ask(callId, state.approvalId));
    last.catch(() => interrupt.abort()); // The error is reported below.
  });
  // A chunk may end within a character.
  const texts = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  for await (const it of running) {
    if (!flags.progress) continue;
    if (it.kind === 'state') process.stderr.write(`ringfence: ${it.state.status}\n`);
    // Without --json the output is shown anyway, each stream separately.
    else if (flags.json) process.stderr.write(harmless(texts[it.stream].decode(it.data, { stream: true })));
  }
  await last;
  return asked;
}

/**
 * Asks a person about a call: the one at this terminal, or without a terminal anybody who watches approvals. Returns `nobody` if there is
 * no such person, `left` if the person closed the question, and undefined if the result only needs to be awaited.
 */
export async function askPerson(
  approvalId: string,
  { caller, over }: { caller: CliCaller; over: AbortSignal },
): Promise<'nobody' | 'left' | undefined> {
  await using operator = await connect({ ...caller, role: 'operator' });
  if (process.stdin.isTTY && process.stderr.isTTY) {
    const { approvals } = await operator.request('approvals.list', {});
    const approval = approvals.find((it) => it.approvalId === approvalId);
    if (!approval) return undefined; // Answered elsewhere in the meantime.
    const { NO_COLOR } = caller.env;
    const io = { input: process.stdin, output: process.stderr, isTTY: true, noColor: NO_COLOR !== undefined };
    const answer = await askInline(approval, io, over);
    if (!answer) return over.aborted ? undefined : 'left';
    await operator.request('approvals.resolve', { approvalId, ...answer }).catch((error: unknown) => {
      // Answered elsewhere, or too late; the call's result says how.
      if (!(error instanceof RemoteError)) throw error;
      say(`your answer was not accepted:  ${harmless(error.message)}`);
    });
    return undefined;
  }
  const { approvers } = (await operator.request('status', {})) as { approvers: number };
  if (approvers > 0) {
    say(`waits for approval ${approvalId}`);
    return undefined;
  }
  return 'nobody';
}

/** Ends a call that no person can approve now, and leaves its question open. */
export const park = (client: Client, callId: string): Promise<unknown> =>
  client.request('calls.cancel', { callId, park: true }).catch(() => {}); // The call is over, or the connection.

const UNITS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000 };

/** Parses `250ms`, `5s`, `2m`, `1h` or a number of seconds to milliseconds. Throws UsageError. */
export function parseDuration(text: string): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h)?$/.exec(text);
  const ms = Math.round(Number(match?.[1]) * (UNITS[match?.[2] ?? 's'] as number));
  if (!match || ms < 1) throw new UsageError(`--timeout must be a duration such as 250ms, 5s or 2m, not ${text}`);
  return ms;
}
