/** Makes a span of each `tools/call`, as a part of the client's trace; the spans of its calls are its children. */
import type { CallToolResult, InputRequiredResult, ServerContext } from '@modelcontextprotocol/server';
import type { SpanContext } from '../../base/call.ts';
import { TOOL_ERROR } from '../../store/telemetry/conventions.ts';
import { isPlainId, spanContextOf } from '../../store/telemetry/trace-context.ts';
import type { Tracer } from '../../store/telemetry/tracer.ts';

interface TracedRequest {
  /** The tool, if the session has it: no other name goes to a collector. */
  readonly tool: string | undefined;
  readonly sessionId: string;
  readonly context: ServerContext;
}

type Answer = CallToolResult | InputRequiredResult;

const METHOD = 'tools/call';

/** The type of an error that a request ends with: the code of a JSON-RPC error. */
export function errorTypeOf(error: unknown): string {
  const { code } = error as { code?: unknown };
  // The range of JSON-RPC, which keeps labels few.
  return typeof code === 'number' && code >= -32_768 && code <= -32_000 ? `${code}` : 'error';
}

/** Gives what `work` gives, and throws what it throws. */
export async function inRequestSpan(
  tracer: Tracer | undefined,
  { tool = 'unknown', sessionId, context: { mcpReq } }: TracedRequest,
  work: (span?: SpanContext) => Promise<Answer>,
): Promise<Answer> {
  if (!tracer) return work();
  const span = tracer.begin(spanContextOf(mcpReq._meta));
  const attributes = {
    'mcp.method.name': METHOD,
    'mcp.session.id': sessionId,
    'gen_ai.operation.name': 'execute_tool',
    'gen_ai.tool.name': tool,
    ...(isPlainId(mcpReq.id) && { 'jsonrpc.request.id': `${mcpReq.id}` }),
  };
  const end = (error?: string) => span.end({ name: `${METHOD} ${tool}`, kind: 'server', attributes, error });
  try {
    const answer = await work(span.context);
    end('isError' in answer && answer.isError ? TOOL_ERROR : undefined);
    return answer;
  } catch (error) {
    end(errorTypeOf(error));
    throw error;
  }
}
