import type { ToolResult } from './call.ts';
import { ToolError } from './errors.ts';

/** A call that was under way when its daemon or node ended. */
export interface LostCall {
  readonly callId: string;
  readonly tool: string;
  /** Milliseconds since the epoch. */
  readonly atMs: number;
}

export interface Loss {
  readonly message: string;
  /** What the caller should do now. */
  readonly suggestion: string;
  /** `none`: the call has certainly not begun. `unknown`: it may have run. */
  readonly outcome: 'none' | 'unknown';
  /** The fleet's node that is gone. */
  readonly node?: string;
}

/** The result of such a call. MCP's bridge, which loads next to nothing, has its own in src/faces/mcp/cut-off.ts. */
export function lostResult({ callId, tool, atMs }: LostCall, { message, suggestion, outcome, node }: Loss): ToolResult {
  const details = { outcome, node };
  const error = new ToolError('HOST_CRASHED', message, { suggestion, details }).toWire();
  const resources = { cpuMs: 0, outputBytes: 0, verdict: 'crashed', enforcedBy: 'not known' } as const;
  const times = { durationMs: 0, queuedMs: 0, timestamp: new Date(atMs).toISOString() };
  const metadata = { ...times, cached: false, retriesAttempted: 0, undo: 'none', resources } as const;
  return { callId, tool, success: false, error, metadata };
}
