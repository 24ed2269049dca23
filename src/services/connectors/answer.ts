/** Reads answers of services: the named fields of a good one, the reason of a bad one. Nothing else of an answer goes on. */
import { ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import { jsonOr } from '../../base/text/json.ts';
import { withoutUnseen } from '../../base/text/shown-text.ts';
import { isRecord } from '../../base/text/values.ts';
import type { OperationFile, OutputField } from './file.ts';
import { parseJsonPath, pick } from './json-path.ts';

/** An answer whose body was decompressed, with names of headers in lower case. */
export interface ServiceAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  readonly truncated: boolean;
}

/** Deepest nesting of a field that goes on; what is deeper costs stack in every consumer. */
const DEPTH_MAX = 16;

/** The JSON value of a body, or its text if no field of a JSON value is wanted; undefined for an empty one. Throws UPSTREAM_FAILED. */
export function parseBody(
  { status, headers, body, truncated }: ServiceAnswer,
  { output }: Pick<OperationFile, 'output'>,
  { connectorBodyBytesMax }: Limits,
): unknown {
  if (body.length === 0) return undefined;
  if (truncated || body.length > connectorBodyBytesMax)
    throw new ToolError('UPSTREAM_FAILED', `the service answered more than ${connectorBodyBytesMax} bytes`, {
      suggestion: 'Ask for less, such as fewer items.',
    });
  const text = Buffer.from(body).toString('utf8');
  const value = jsonOr(text, undefined);
  if (value !== undefined) return value;
  // If the template reads fields of the answer, plain text is an error: often the page of a proxy or of a sign-in.
  const isText = !/json/i.test(headers['content-type'] ?? '');
  if (isText && !Object.values(output).some(readsMembers)) return text.slice(0, TEXT_CHARS);
  throw new ToolError('UPSTREAM_FAILED', `the service answered ${status} with a body that is no JSON`);
}

/** Whether a field is within the JSON value of the body. */
function readsMembers(field: OutputField): boolean {
  if (typeof field === 'object' && 'value' in field) return false;
  const path = typeof field === 'string' ? field : 'each' in field ? `${field.each}[*]` : field.from;
  return path.startsWith('$') && path !== '$';
}

/** Characters of an answer that is plain text. */
const TEXT_CHARS = 2_000;

export function fieldsOf(
  output: OperationFile['output'],
  answer: Pick<ServiceAnswer, 'status' | 'headers'>,
  value: unknown,
): Record<string, unknown> {
  const fields = Object.entries(output).map(([name, field]) => [name, fieldOf(field, answer, value)] as const);
  return Object.fromEntries(fields.filter(([, it]) => it !== undefined));
}

function fieldOf(field: OutputField, answer: Pick<ServiceAnswer, 'status' | 'headers'>, value: unknown): unknown {
  if (typeof field === 'object' && 'each' in field) {
    const list = pick(parseJsonPath(field.each), value);
    const paths = Object.entries(field.fields).map(([name, path]) => [name, parseJsonPath(path)] as const);
    const toItem = (item: unknown) =>
      Object.fromEntries(paths.map(([name, path]) => [name, withinDepth(pick(path, item), DEPTH_MAX)]));
    return Array.isArray(list) ? list.map(toItem) : [];
  }
  if (typeof field === 'object' && 'value' in field) return field.value;
  const source = typeof field === 'string' ? field : field.from;
  if (source === 'status') return answer.status;
  if (source.startsWith('headers.')) return withinDepth(answer.headers[source.slice('headers.'.length)], 1);
  const found = withinDepth(pick(parseJsonPath(source), value), DEPTH_MAX);
  return typeof field === 'object' && typeof found === 'string' ? worded(found, field) : found;
}

/** The text as the connector's file has it said. */
function worded(
  text: string,
  { prefix = '', words = {} }: { prefix?: string | undefined; words?: Readonly<Record<string, string>> | undefined },
): string {
  if (Object.hasOwn(words, text)) return words[text] ?? text;
  return text.startsWith(prefix) ? text : prefix + text;
}

/** The value without what is nested deeper, and without invisible characters, by which strangers could address a model. */
function withinDepth(value: unknown, depth: number): unknown {
  if (typeof value === 'string') return withoutUnseen(value);
  if (typeof value !== 'object' || value === null) return value;
  if (depth === 0) return '…';
  if (Array.isArray(value)) return value.map((it) => withinDepth(it, depth - 1));
  return Object.fromEntries(Object.entries(value).map(([key, it]) => [withoutUnseen(key), withinDepth(it, depth - 1)]));
}

/** Throws INPUT_INVALID where the answer says by a field that the operation failed. */
export function assertSuccess({ success }: OperationFile, value: unknown, host: string): void {
  if (!success || pick(parseJsonPath(success.when), value) === true) return;
  const reason = pick(parseJsonPath(success.reason), value);
  const told =
    typeof reason === 'string' ? withoutUnseen(reason.slice(0, REASON_CHARS)).toWellFormed() : 'it says no reason';
  throw new ToolError('INPUT_INVALID', `${host} refused it: ${told}`, { layer: 'tool' });
}

/** Whether the status says that the service did what it was asked to. */
export const isGood = ({ status }: ServiceAnswer): boolean => status >= 200 && status < 300;

const REASON_CHARS = 400;

interface ErrorContext {
  readonly host: string;
  readonly retryAfterMs?: number | undefined;
  /** What a person can do about some statuses, as the connector's file says. */
  readonly hints?: OperationFile['hints'];
}

/** The error of an answer with a bad status. */
export function errorOf(answer: ServiceAnswer, { host, retryAfterMs, hints = {} }: ErrorContext): ToolError {
  const { status } = answer;
  const reason = reasonIn(answer);
  const told = `${host} answered ${status}${reason === undefined ? '' : `: ${reason}`}`;
  const details = { status, retryAfterMs };
  const suggestion = hints[status] ?? SUGGESTIONS[status];
  const extras = { details, suggestion };
  if (status === 429) return new ToolError('RATE_LIMITED', told, extras);
  if (status === 401) return new ToolError('AUTH_REQUIRED', told, extras);
  if (status === 403) return new ToolError('ACCESS_DENIED', told, extras);
  if (status === 404 || status === 410) return new ToolError('NOT_FOUND', told, extras);
  if (status === 409) return new ToolError('CONFLICT', told, extras);
  if (status >= 300 && status < 400)
    return new ToolError('UPSTREAM_FAILED', `${told}; connectors follow no redirections`, extras);
  if (status < 500) return new ToolError('INPUT_INVALID', told, { ...extras, layer: 'tool' });
  return new ToolError('UPSTREAM_FAILED', told, extras);
}

/** What to do about statuses of any service. */
const SUGGESTIONS: Readonly<Record<number, string>> = {
  401: 'The service refused the secret; ask the person to set another one.',
  429: 'Call again later.',
};

/** What the service says is wrong, in the places where services say it. */
function reasonIn({ body }: ServiceAnswer): string | undefined {
  const value = jsonOr(Buffer.from(body.subarray(0, 65_536)).toString('utf8'), undefined);
  if (!isRecord(value)) return undefined; // Such as a page for people, or a long answer.
  const { error, errors, message, detail } = value;
  const found = [message, error, errors, detail].map(textIn).find((it) => it !== undefined);
  return found && withoutUnseen(found.slice(0, REASON_CHARS).replaceAll(/\s+/g, ' ')).toWellFormed();
}

/** The text of a reason, which services also give as an object with a message, or as a list of these. */
function textIn(reason: unknown): string | undefined {
  const first: unknown = Array.isArray(reason) ? reason[0] : reason;
  if (!isRecord(first)) return typeof first === 'string' ? first : undefined;
  const told = [first.message, first.msg, first.detail, first.error].find((it) => typeof it === 'string');
  return told as string | undefined;
}
