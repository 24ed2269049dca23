/**
 * The closed list of error codes of calls, and the error class that carries them. Adding a code changes this table, docs/errors.md,
 * docs/protocol.md and a test that keeps them equal.
 */
import { safeText } from './text/shown-text.ts';

export const CATEGORIES = [
  'VALIDATION',
  'PERMISSION',
  'NOT_FOUND',
  'CONFLICT',
  'TIMEOUT',
  'RESOURCE',
  'NETWORK',
  'SYSTEM',
  'CANCELLED',
  'UNKNOWN',
] as const;
export type Category = (typeof CATEGORIES)[number];

export const LAYERS = [
  'protocol',
  'validate',
  'policy',
  'approval',
  'limit',
  'sandbox',
  'tool',
  'provider',
  'daemon',
] as const;
export type Layer = (typeof LAYERS)[number];

interface CodeRow {
  readonly category: Category;
  readonly layer: Layer;
  /** Whether the same call may succeed later unchanged. */
  readonly recoverable: boolean;
}

const row = (category: Category, layer: Layer, recoverable = false): CodeRow => ({ category, layer, recoverable });

export const CODES = {
  TOOL_NOT_FOUND: row('NOT_FOUND', 'validate'),
  TOOL_DISABLED: row('PERMISSION', 'policy'),
  INPUT_INVALID: row('VALIDATION', 'validate'),
  ACCESS_DENIED: row('PERMISSION', 'policy'),
  SENSITIVE_FILE: row('PERMISSION', 'policy'),
  POLICY_DENIED: row('PERMISSION', 'policy'),
  APPROVAL_DENIED: row('PERMISSION', 'approval'),
  APPROVAL_REQUIRED: row('PERMISSION', 'approval', true),
  APPROVAL_TIMEOUT: row('PERMISSION', 'approval', true),
  APPROVAL_STALE: row('PERMISSION', 'approval', true),
  AUTH_REQUIRED: row('PERMISSION', 'policy'),
  RATE_LIMITED: row('RESOURCE', 'limit', true),
  QUEUE_FULL: row('RESOURCE', 'limit', true),
  COST_LIMIT: row('RESOURCE', 'limit'),
  TIMEOUT: row('TIMEOUT', 'limit', true),
  CPU_LIMIT: row('RESOURCE', 'limit'),
  MEMORY_LIMIT: row('RESOURCE', 'limit'),
  OUTPUT_LIMIT: row('RESOURCE', 'limit'),
  PROCESS_LIMIT: row('RESOURCE', 'limit'),
  FILE_LIMIT: row('RESOURCE', 'limit'),
  SANDBOX_UNAVAILABLE: row('SYSTEM', 'sandbox'),
  SANDBOX_DENIED: row('PERMISSION', 'sandbox'),
  NOT_FOUND: row('NOT_FOUND', 'tool'),
  ALREADY_EXISTS: row('CONFLICT', 'tool'),
  CONFLICT: row('CONFLICT', 'tool'),
  UNSUPPORTED: row('VALIDATION', 'tool'),
  PROGRAM_MISSING: row('NOT_FOUND', 'tool'),
  UPSTREAM_FAILED: row('NETWORK', 'tool', true),
  PROVIDER_UNAVAILABLE: row('NETWORK', 'provider', true),
  DEPENDENCY_CYCLE: row('VALIDATION', 'validate'),
  DEPENDENCY_FAILED: row('VALIDATION', 'validate'),
  REFERENCE_UNRESOLVED: row('VALIDATION', 'validate'),
  CODE_ERROR: row('UNKNOWN', 'tool'),
  CANCELLED: row('CANCELLED', 'daemon'),
  HOST_CRASHED: row('SYSTEM', 'daemon', true),
  STORE_FAILED: row('SYSTEM', 'daemon', true),
  SHUTTING_DOWN: row('SYSTEM', 'daemon', true),
  INTERNAL: row('SYSTEM', 'daemon', true),
} as const satisfies Record<string, CodeRow>;
export type Code = keyof typeof CODES;

/** The error of a failed call in `ToolResult.error`; plain data, so that it can be sent between threads, processes and over the wire. */
export interface WireError {
  code: Code;
  category: Category;
  message: string;
  recoverable: boolean;
  layer: Layer;
  suggestion?: string | undefined;
  rule?: string | undefined;
  details?: Record<string, unknown> | undefined;
}

export interface ErrorExtras {
  /** What the caller can do about it, in one sentence. */
  suggestion?: string | undefined;
  /** The policy rule that decided. */
  rule?: string | undefined;
  details?: Record<string, unknown> | undefined;
  /** Overrides the code's usual layer if another layer refused. */
  layer?: Layer;
  cause?: unknown;
}

/**
 * A call that fails for a reason its caller should know.
 * The message is one line with what was refused, the value and the bound; never a stack, a secret or a path outside the workspace.
 */
export class ToolError extends Error {
  readonly code: Code;
  readonly extras: ErrorExtras;

  constructor(code: Code, message: string, extras: ErrorExtras = {}) {
    super(safeText(message), extras.cause === undefined ? undefined : { cause: extras.cause });
    this.name = 'ToolError';
    this.code = code;
    const { suggestion } = extras;
    this.extras = suggestion === undefined ? extras : { ...extras, suggestion: safeText(suggestion) };
  }

  toWire(): WireError {
    const { category, layer, recoverable } = CODES[this.code];
    const { suggestion, rule, details } = this.extras;
    return {
      code: this.code,
      category,
      message: this.message,
      recoverable,
      layer: this.extras.layer ?? layer,
      ...(suggestion !== undefined && { suggestion }),
      ...(rule !== undefined && { rule }),
      ...(details !== undefined && { details }),
    };
  }

  static fromWire(error: WireError): ToolError {
    const { suggestion, rule, details, layer } = error;
    return new ToolError(error.code, error.message, { layer, suggestion, rule, details });
  }
}

/** A problem in words for the person at the command line, who can do something about it. */
export class OperatorError extends Error {}

/** A problem with what that person wrote. */
export class UsageError extends OperatorError {}

export const isCode = (value: unknown): value is Code => typeof value === 'string' && Object.hasOwn(CODES, value);

/** Converts anything thrown to a ToolError; unknown errors become INTERNAL, with the cause only in the log. */
export function toToolError(thrown: unknown): ToolError {
  if (thrown instanceof ToolError) return thrown;
  return new ToolError('INTERNAL', 'something went wrong inside Ringfence; the daemon log has the cause', {
    cause: thrown,
  });
}

/** JSON-RPC error codes: errors of the protocol, not of a tool. */
export const RPC_CODES = {
  PARSE: -32700,
  INVALID_REQUEST: -32600,
  METHOD_NOT_FOUND: -32601,
  INVALID_PARAMS: -32602,
  INTERNAL: -32603,
  FRAME_TOO_LARGE: -32001,
  NOT_READY: -32002,
  UNAUTHENTICATED: -32003,
  FORBIDDEN: -32004,
  VERSION_UNSUPPORTED: -32005,
  OVERLOADED: -32006,
} as const;
export type RpcCode = keyof typeof RPC_CODES;

/** A request that could not be served; becomes the `error` member of its response. */
export class RpcError extends Error {
  readonly code: RpcCode;
  readonly data: Record<string, unknown>;

  constructor(code: RpcCode, message: string, data: Record<string, unknown> = {}) {
    super(message);
    this.name = 'RpcError';
    this.code = code;
    this.data = data;
  }

  toWire(): { code: number; message: string; data: Record<string, unknown> } {
    return { code: RPC_CODES[this.code], message: this.message, data: { code: this.code, ...this.data } };
  }
}
