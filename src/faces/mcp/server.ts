/** Handlers of MCP requests, the same for both protocol eras: one SDK server for each connection, or for each request over HTTP. */

import { hash } from 'node:crypto';
import {
  type CallToolResult,
  CLIENT_CAPABILITIES_META_KEY,
  CLIENT_INFO_META_KEY,
  createRequestStateCodec,
  type InputRequiredResult,
  inputRequired,
  inputResponse,
  type RequestStateCodec,
  Server,
  type ServerContext,
} from '@modelcontextprotocol/server';
import type { SpanContext, ToolResult } from '../../base/call.ts';
import { RpcError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import { type McpMetrics, TOOL_ERROR } from '../../store/telemetry/conventions.ts';
import type { Tracer } from '../../store/telemetry/tracer.ts';
import { runsBy } from '../../tools/runs.ts';
import { type MapParts, toBatchResult, toCallResult, toErrorResult, toProtocolError } from './map.ts';
import { ProgressReporter } from './progress.ts';
import { toForm, toResolution } from './question.ts';
import { RESULT_TEMPLATE, readResource } from './resources.ts';
import type { McpSession } from './session.ts';
import { BATCH, batchInput, type ToolChoice, type ToolLists } from './tools.ts';
import { errorTypeOf, inRequestSpan } from './trace.ts';

export interface ServerParts {
  readonly version: string;
  readonly limits: Limits;
  readonly powers: Powers;
  readonly lists: ToolLists;
  /** Counts the requests that ended. */
  readonly requests: McpMetrics;
  /** Undefined if calls are not traced. */
  readonly tracer: Tracer | undefined;
  /** Signs the state that clients return with a person's answer; unique to this daemon. */
  readonly stateKey: string;
}

export interface ServedClient {
  readonly era: 'legacy' | 'modern';
  /** The client's choice of tools at the time of a request. */
  choice(): ToolChoice;
  /** Principal of the requests; state signed for one principal is invalid for another. */
  readonly principal: string;
  /** Whether the person at the client may answer questions about its calls. */
  readonly mayAnswer: boolean;
  /** Runs `work` in the session of a request. Throws RpcError if there can be none. */
  use<T>(context: ServerContext, work: (session: McpSession) => Promise<T>): Promise<T>;
}

/** The state that comes back with the answer to a question. */
interface RequestState {
  readonly approvalId: string;
  /** Digest of the call that the question was about. */
  readonly digest: string;
}

const INSTRUCTIONS = `Tools run on this machine, confined to one workspace folder; paths are relative to it, and commands see only what they may.
Several calls that do not need your judgement in between: ${BATCH}. Loops and filters over many calls: code_run.
Some calls wait for a person. If a result says that approval a_… is pending, tell the person, then make the very same call again: it takes their answer. What a person denied stays denied; do something else.
Long results are cut and name a resource (ringfence://result/…) that has all of it; read on with ?offset=.
Commands end after two minutes; servers, watchers and REPLs belong in terminal_interactive. Files that calls changed can be restored by the person: ringfence undo.`;

/** Resources and prompts have no lists; declaring them gives clients an empty list instead of an error. */
const CAPABILITIES = { tools: { listChanged: true }, resources: {}, prompts: {} };

/** How long clients may cache the list of tools; listening clients are notified of changes at once. */
const LIST_TTL_MS = 60_000;

/** Name of the only input request in a question. */
const APPROVAL = 'approval';

export function createServer(client: ServedClient, parts: ServerParts): Server {
  const { version, stateKey, limits } = parts;
  const codec = createRequestStateCodec<RequestState>({
    key: stateKey,
    ttlSeconds: Math.ceil(STATE_TTL_MS / 1000),
    bind: ({ mcpReq }) => `${mcpReq.method}\0${client.principal}`,
  });
  const server = new Server(
    { name: 'ringfence', title: 'Ringfence', version },
    {
      capabilities: CAPABILITIES,
      instructions: INSTRUCTIONS,
      requestState: { verify: codec.verify },
      cacheHints: { 'tools/list': { ttlMs: LIST_TTL_MS, cacheScope: 'private' } },
    },
  );
  const within = <T>(context: ServerContext, work: (session: McpSession) => Promise<T>): Promise<T> =>
    counted({ method: context.mcpReq.method, ...parts }, () =>
      client.use(context, work).catch((error: unknown) => {
        throw error instanceof RpcError ? toProtocolError(error) : error;
      }),
    );
  server.setRequestHandler('tools/list', (_, context) =>
    within(context, async ({ session }) => ({ tools: parts.lists.listFor(session, client.choice()) })),
  );
  server.setRequestHandler('tools/call', ({ params }, context) =>
    within(context, async (session) => {
      // Over HTTP each request names its protocol version.
      const said = context.http?.req?.headers.get('mcp-protocol-version');
      const links = client.era === 'modern' || (server.getNegotiatedProtocolVersion() ?? said ?? '') >= LINKS_SINCE;
      const { id: sessionId, toolset } = session.session.options;
      const request = {
        client,
        codec,
        context,
        session,
        map: {
          limits,
          links,
          keep: (text: string) => session.keep(text),
          isUntrusted: (name: string) => {
            const tool = toolset.get(name)?.tool;
            // The content of providers has kinds of its own, and is passed on as it comes.
            return tool?.untrusted === true && !runsBy(tool, 'providers');
          },
        },
      };
      const tool = params.name === BATCH ? BATCH : toolset.get(params.name)?.tool.name;
      return await inRequestSpan(parts.tracer, { tool, sessionId, context }, (span) =>
        callTool(params, { ...request, span }, parts),
      );
    }),
  );
  server.setRequestHandler('resources/list', () => ({ resources: [] }));
  server.setRequestHandler('resources/templates/list', () => ({ resourceTemplates: [RESULT_TEMPLATE] }));
  server.setRequestHandler('resources/read', ({ params }, context) =>
    within(context, (session) => readResource(params.uri, session)),
  );
  server.setRequestHandler('prompts/list', () => ({ prompts: [] }));
  server.setRequestHandler('prompts/get', ({ params }) => {
    throw toProtocolError(
      new RpcError('INVALID_PARAMS', `there is no prompt ${params.name.slice(0, 128)}; this server offers no prompts`),
    );
  });
  return server;
}

/** Gives what `work` gives, and counts how long it took. */
async function counted<T>(
  { method, requests, powers }: Pick<ServerParts, 'requests' | 'powers'> & { readonly method: string },
  work: () => Promise<T>,
): Promise<T> {
  const startedMs = powers.monotonicMs();
  const end = (error?: string) => requests.ended({ method, durationMs: powers.monotonicMs() - startedMs, error });
  try {
    const answer = await work();
    end((answer as { isError?: boolean }).isError ? TOOL_ERROR : undefined);
    return answer;
  } catch (error) {
    end(errorTypeOf(error));
    throw error;
  }
}

const LINKS_SINCE = '2025-06-18';
/** Lifetime of signed state: questions wait no longer under the default policy, and a later answer finds none. */
const STATE_TTL_MS = 600_000;

interface ToolRequest {
  readonly client: ServedClient;
  readonly codec: RequestStateCodec<RequestState>;
  readonly context: ServerContext;
  readonly session: McpSession;
  readonly map: MapParts;
  readonly span: SpanContext | undefined;
}

type RequestedCall = { readonly name: string; readonly arguments?: Record<string, unknown> | undefined };

async function callTool(
  asked: RequestedCall,
  request: ToolRequest,
  parts: ServerParts,
): Promise<CallToolResult | InputRequiredResult> {
  const { client, context, span } = request;
  using progress = progressOf(context, parts);
  if (asked.name === BATCH) return await callBatch(asked.arguments, request, progress);
  takeAnswer(asked, request);
  const { signal } = context.mcpReq;
  const parks = client.era === 'modern' && client.mayAnswer && saysItAsks(context);
  const result = await request.session.call(asked.name, asked.arguments ?? {}, { signal, progress, parks, span });
  if (!result.success && result.error.code === 'TOOL_NOT_FOUND')
    throw toProtocolError(
      new RpcError('INVALID_PARAMS', [result.error.message, result.error.suggestion].filter(Boolean).join('; ')),
    );
  const question = parks ? pendingOf(result) : undefined;
  const approval = question === undefined ? undefined : request.session.approval(question);
  if (!approval) return toCallResult(result, request.map);
  const { approvalId } = approval;
  return inputRequired({
    inputRequests: { [APPROVAL]: inputRequired.elicit(toForm(approval, parts.powers.now())) },
    requestState: await request.codec.mint({ approvalId, digest: digestOf(asked, request.session) }, context),
  });
}

async function callBatch(
  input: unknown,
  { context, session, map, span }: ToolRequest,
  progress: ProgressReporter | undefined,
): Promise<CallToolResult> {
  const parsed = batchInput.safeParse(input ?? {});
  if (!parsed.success) {
    const issues = parsed.error.issues
      .slice(0, 16)
      .map(({ path, message }) => `${path.join('.') || 'input'}: ${message}`);
    return toErrorResult(`INPUT_INVALID: ${issues.join('; ')}`);
  }
  try {
    return toBatchResult(
      parsed.data.calls,
      await session.batch(parsed.data, { signal: context.mcpReq.signal, progress, span }),
      map,
    );
  } catch (error) {
    if (error instanceof RpcError) return toErrorResult(`${error.code}: ${error.message}`, error);
    throw error;
  }
}

/** Takes an answer that came with a repeated call. State signed for another call is ignored. */
function takeAnswer(asked: RequestedCall, { client, context, session }: ToolRequest): void {
  if (client.era === 'legacy' || !client.mayAnswer) return;
  const before = context.mcpReq.requestState<RequestState>();
  const answer = inputResponse(context.mcpReq.inputResponses, APPROVAL);
  if (!before || before.digest !== digestOf(asked, session) || answer.kind !== 'elicit') return;
  const approval = session.approval(before.approvalId);
  if (approval) session.answer(before.approvalId, toResolution(answer, approval));
}

/** Whether the request's client can ask its person. */
export function saysItAsks({ mcpReq }: ServerContext): boolean {
  const capabilities = envelopeOf(mcpReq)[CLIENT_CAPABILITIES_META_KEY] as { elicitation?: object } | undefined;
  return asksByForm(capabilities?.elicitation);
}

/** Whether a client supports forms; a client that names no modes does. */
export const asksByForm = (elicitation: object | undefined): boolean =>
  elicitation !== undefined && ('form' in elicitation || !('url' in elicitation));

/** Name and version of the client, if the request contains them. */
export const clientOf = ({ mcpReq }: ServerContext): { name?: string; version?: string } | undefined =>
  envelopeOf(mcpReq)[CLIENT_INFO_META_KEY] as object | undefined;

/** The client facts in a request of protocol 2026-07-28. */
const envelopeOf = ({ envelope }: ServerContext['mcpReq']): Record<string, unknown> => envelope ?? {};

function pendingOf(result: ToolResult): string | undefined {
  const details = result.success ? undefined : result.error.details;
  return details?.pending === true ? (details.approvalId as string) : undefined;
}

function progressOf({ mcpReq }: ServerContext, { limits, powers }: ServerParts): ProgressReporter | undefined {
  const progressToken = mcpReq._meta?.progressToken;
  if (progressToken === undefined) return undefined;
  const send = (progress: number, message: string) =>
    // The connection may end meanwhile.
    void mcpReq
      .notify({ method: 'notifications/progress', params: { progressToken, progress, message } })
      .catch(() => {});
  return new ProgressReporter(send, limits, powers);
}

const digestOf = ({ name, arguments: input = {} }: RequestedCall, { session }: McpSession): string =>
  hash('sha256', JSON.stringify([session.options.workspace, name, input]), 'base64');
