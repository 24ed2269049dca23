/**
 * Entry of a provider host: an MCP client in the sandbox of its server. Only this process parses what the server
 * sends; the gateway gets our frames, on fd 3. If compromised, it can lie only about its own provider.
 */
import { readdirSync, readFileSync } from 'node:fs';
import {
  Client,
  type Progress,
  ProtocolError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
} from '@modelcontextprotocol/client';
import { ToolError } from '../src/base/errors.ts';
import type { Limits } from '../src/base/limits.ts';
import { systemPowers } from '../src/base/powers.ts';
import type { ProvidedData } from '../src/base/provided-data.ts';
import { KnownValues } from '../src/base/redact/known-values.ts';
import type { FromHost, HostSetup, Job, JobProgress, JobResult, ToHost } from '../src/hosts/job.ts';
import { PROGRESS_CHARS_MAX } from '../src/hosts/parse-from-host.ts';
import type { ProviderMessage, ProviderSetup, ToolDefinition } from '../src/services/providers/messages.ts';
import { toDefinition, toHarmless, toPlainText } from '../src/services/providers/text.ts';
import { GATEWAY_FD, GatewayLine } from './gateway-line.ts';
import { establishPerimeter } from './perimeter.ts';
import { yieldToOthers } from './priority.ts';
import { connectHttp } from './provider/http.ts';
import { listedTools } from './provider/list.ts';
import { toData } from './provider/result.ts';
import { ServerProcess } from './provider/stdio.ts';

establishPerimeter(GATEWAY_FD);
// The server inherits the priority.
yieldToOthers();

const powers = systemPowers();
const gateway = new GatewayLine<ToHost, FromHost>(receive);
const send = (message: FromHost): void => gateway.sendForeign(message);
const running = new Map<number, AbortController>();
let limits: Limits | undefined;
let setup: ProviderSetup | undefined;
let client: Client | undefined;

/** The longest time that timers accept; the gateway ends calls. */
const NEVER_MS = 2 ** 31 - 1;
const MIB = 1024 * 1024;
const PAGE_BYTES = 4096;
const tell = (told: ProviderMessage): void => send({ told });

/** Reports why this provider can't go on, and ends the process. */
function fail(reason: string): void {
  tell({ failed: toShown(reason) });
  gateway.end();
}

/** Makes a foreign text safe and short enough for a person or a log. */
const toShown = (text: string): string => toPlainText(toHarmless(setup?.secrets ?? [], text) as string, SHOWN_CHARS);
const SHOWN_CHARS = 2000;

async function begin(given: HostSetup): Promise<void> {
  limits = given.limits;
  gateway.limits = limits;
  setup = given.provider as ProviderSetup;
  send({ ready: true });
  if (setup.memoryMb !== undefined) watchMemory(setup.memoryMb, limits);
  const mode = setup.protocol === 'modern' ? { pin: '2026-07-28' } : setup.protocol;
  client = new Client(
    { name: 'ringfence', version: setup.version },
    {
      // No client capabilities: requests of the server are answered with -32601.
      capabilities: {},
      versionNegotiation: { mode },
      inputRequired: { autoFulfill: false },
      // The caller judges a result that does not match its tool's schema.
      jsonSchemaValidator: {
        getValidator: () => (input) => ({ valid: true, data: input as never, errorMessage: undefined }),
      },
      listChanged: {
        tools: {
          autoRefresh: false,
          debounceMs: limits.providerListMs,
          onChanged: () => void listAgain().catch(failWith),
        },
      },
    },
  );
  client.onclose = () => fail('the connection to the server ended');
  const { server } = setup;
  const transport =
    'command' in server
      ? new ServerProcess(server, {
          limits,
          powers,
          onStderr: (text) => void process.stderr.write(`${toShown(text).trimEnd()}\n`),
          onFailure: fail,
        })
      : connectHttp(server, { limits, powers, onFailure: fail });
  await client.connect(transport, { timeout: limits.providerStartMs });
  listed = list();
  await listed;
}

const failWith = (error: unknown): void => fail(messageOf(error));

/** The message of an error, with the cause of a failed fetch. */
function messageOf(error: unknown): string {
  const { message, cause } = error as Error;
  return cause instanceof Error ? `${message}: ${cause.message}` : message;
}

let listed: Promise<void> = Promise.resolve();
let willList = false;

/** Lists the tools once for all changes in between, and not right after the last list: the gateway accepts only so many. */
async function listAgain(): Promise<void> {
  if (willList) return;
  willList = true;
  await listed;
  await new Promise<void>((resolve) => powers.after((limits as Limits).providerListMs * 2, resolve));
  willList = false;
  listed = list();
  await listed;
}

async function list(): Promise<void> {
  const { providerListBytes } = limits as Limits;
  const { secrets = [] } = setup ?? {};
  const tools = new Map<string, ToolDefinition>();
  const refused: { name: string; reason: string }[] = [];
  const known = new KnownValues(secrets);
  for (const tool of await listedTools(client as Client, limits as Limits)) {
    try {
      const definition = toDefinition(known.hideAll(tool) as Record<string, unknown>, limits as Limits);
      if (tools.has(definition.name)) throw new Error('another tool has this name');
      tools.set(definition.name, definition);
    } catch (error) {
      const name = typeof tool.name === 'string' ? toPlainText(known.hide(tool.name), 100) : '?';
      refused.push({ name, reason: toPlainText(messageOf(error), 400) });
    }
  }
  const bytes = JSON.stringify([...tools.values()]).length;
  if (bytes > providerListBytes)
    throw new Error(`the tool list of the server has ${bytes} bytes; at most ${providerListBytes} are accepted`);
  const { name = '', version = '' } = toHarmless(secrets, client?.getServerVersion() ?? {}) as Record<string, string>;
  tell({
    tools: [...tools.values()],
    refused,
    server: { name: toPlainText(name, 100), version: toPlainText(version, 50) },
  });
}

async function run(job: Job): Promise<void> {
  const controller = new AbortController();
  running.set(job.id, controller);
  let result: JobResult;
  try {
    if (!('tool' in job)) {
      await ping(controller.signal);
      return answer(job.id, { ok: true, data: null, usage: usageOf() });
    }
    const called = await (client as Client).callTool(
      { name: job.tool, arguments: job.input as Record<string, unknown> },
      { signal: controller.signal, timeout: NEVER_MS, onprogress: progressOf(job.id) },
    );
    const data = toData(called, { ...(setup as ProviderSetup), ...(limits as Limits) });
    result = { ok: true, data, usage: usageOf(data) };
  } catch (error) {
    result = failure(error, controller.signal);
  } finally {
    running.delete(job.id);
  }
  answer(job.id, result);
  if (!result.ok && result.error.code === 'PROVIDER_UNAVAILABLE') fail(result.error.message);
}

/** Asks the server whether it answers. An error is an answer: not every server knows the question. */
async function ping(signal: AbortSignal): Promise<void> {
  const asked = client as Client;
  const options = { signal, timeout: NEVER_MS };
  try {
    await (asked.getProtocolEra() === 'modern' ? asked.discover(options) : asked.ping(options));
  } catch (error) {
    if (!(error instanceof ProtocolError)) throw error;
  }
}

/** Sends a result; one that does not fit into a message fails its call, not this process. */
function answer(id: number, result: JobResult): void {
  try {
    send({ done: { id, result } });
  } catch (thrown) {
    const error = new ToolError('OUTPUT_LIMIT', `the result can't be sent: ${(thrown as Error).message}`);
    send({ done: { id, result: { ok: false, error: error.toWire(), usage: { ...result.usage, verdict: 'output' } } } });
  }
}

const usageOf = (data?: ProvidedData) => ({
  cpuMs: 0,
  verdict: 'ok' as const,
  enforcedBy: 'provider host',
  outputBytes: data === undefined ? 0 : JSON.stringify(data).length,
});

function failure(error: unknown, signal: AbortSignal): JobResult {
  const of = (it: ToolError): JobResult => ({ ok: false, error: it.toWire(), usage: usageOf() });
  if (error instanceof ToolError) return of(error);
  // The gateway knows the reason.
  if (signal.aborted) return of(new ToolError('CANCELLED', 'the call was ended'));
  const { name = '' } = setup ?? {};
  const said = toShown(messageOf(error));
  if (error instanceof ProtocolError)
    return of(new ToolError('UPSTREAM_FAILED', `provider ${name} answered with error ${error.code}: ${said}`));
  const isLost =
    (error instanceof SdkHttpError && error.status === 404) ||
    (error instanceof SdkError && LOST.has(error.code)) ||
    (error instanceof TypeError && !(error instanceof SdkError));
  return of(new ToolError(isLost ? 'PROVIDER_UNAVAILABLE' : 'UPSTREAM_FAILED', `provider ${name}: ${said}`));
}

const LOST: ReadonlySet<SdkErrorCode> = new Set([
  ...[SdkErrorCode.NotConnected, SdkErrorCode.ConnectionClosed, SdkErrorCode.SendFailed],
]);

function progressOf(id: number) {
  let lastAt = -Infinity;
  return ({ progress, total, message }: Progress): void => {
    const now = powers.monotonicMs();
    if (now - lastAt < (limits as Limits).providerProgressMs || !running.has(id)) return;
    lastAt = now;
    const progressMessage: JobProgress = {
      id,
      done: progress,
      total,
      ...(message !== undefined && { message: toShown(message).slice(0, PROGRESS_CHARS_MAX) }),
    };
    send({ progress: progressMessage });
  };
}

/** Ends this sandbox if its processes use too much; processes that kill this one end with it. */
function watchMemory(memoryMb: number, { providerLookMs, providerTasksMax }: Limits): void {
  powers.every(providerLookMs, () => {
    const pids = readdirSync('/proc').filter((it) => /^\d+$/.test(it));
    const pages = pids.reduce((sum, pid) => sum + residentPagesOf(pid), 0);
    if (pages * PAGE_BYTES > memoryMb * MIB) fail(`its processes took more than ${memoryMb} MiB of memory`);
    if (pids.length > providerTasksMax) fail(`it had more than ${providerTasksMax} processes`);
  });
}

function residentPagesOf(pid: string): number {
  try {
    return Number(readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1]);
  } catch {
    return 0; // ENOENT: the process has ended.
  }
}

function receive(message: ToHost): void {
  if ('setup' in message) begin(message.setup).catch(failWith);
  else if ('run' in message) void run(message.run);
  else if ('abort' in message) running.get(message.abort.id)?.abort();
}

gateway.sayUp();
