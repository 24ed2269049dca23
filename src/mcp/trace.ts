/** Makes a span of each `tools/call`, as a part of the client's trace; the spans of its calls are its children. */
import type { CallToolResult, InputRequiredResult, ServerContext } from '@modelcontextprotocol/server';
import type { SpanContext } from '../call.ts';
import { isPlainId, spanContextOf } from '../telemetry/trace-context.ts';
import type { Tracer } from '../telemetry/tracer.ts';

interface TracedRequest {
  /** The tool, if the session has it: no other name goes to a collector. */
  readonly tool: string | undefined;
  readonly sessionId: string;
  readonly context: ServerContext;
}

type Answer = CallToolResult | InputRequiredResult;

const METHOD = 'tools/call';
/** The error type of results with `isError`, by the conventions for MCP. */
const TOOL_ERROR = 'tool_error';

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
    const { code } = error as { code?: unknown };
    end(typeof code === 'number' ? `${code}` : 'error');
    throw error;
  }
}
