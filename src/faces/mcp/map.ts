/**
 * Converts results of calls to MCP. Architecture invariant: one of three places where errors are converted (here: to `isError` results,
 * which a model can act on, and JSON-RPC errors, which it never sees).
 */
import { isDeepStrictEqual } from 'node:util';
import { type CallToolResult, ProtocolError, type ResourceLink } from '@modelcontextprotocol/server';
import type { BatchEstimate, BatchResult, ToolResult } from '../../base/call.ts';
import { RPC_CODES, type RpcError, type WireError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import { type ProvidedData, providedData } from '../../base/provided-data.ts';
import { jsonOr, parseJson } from '../../base/text/json.ts';
import { type Envelope, enclosed, envelopeOf } from '../../wire/protocol/envelope.ts';
import { toJson } from '../../wire/protocol/json.ts';
import { modelTexts } from '../../wire/protocol/model-text.ts';
import { asides, describeWithheld, errorText } from '../../wire/protocol/result-text.ts';

type McpContentBlock = CallToolResult['content'][number];

export interface MapParts {
  readonly limits: Limits;
  /** Stores a text that does not fit and returns its ref. */
  keep(text: string): string;
  /** Whether strangers write the results of a tool. */
  isUntrusted(tool: string): boolean;
  /** Whether the client supports resource links and structured content (since 2025-06-18). */
  readonly links: boolean;
}

export const uriOf = (ref: string): string => `ringfence://result/${ref}`;

export function toCallResult(result: ToolResult, parts: MapParts): CallToolResult {
  const body = new ResultContent(parts, parts.limits.mcpTextBytesMax);
  addResult(body, result, parts.isUntrusted(result.tool));
  const { metadata, callId } = result;
  const { durationMs, tier, cached, undo } = metadata;
  const structured = result.success && parts.links ? structuredOf(result.data, parts.limits) : undefined;
  const error = result.success ? undefined : errorFacts(result.error);
  return {
    content: body.blocks,
    structuredContent: structured,
    ...(!result.success && { isError: true }),
    _meta: { 'ringfence/call': { callId, durationMs, cached, undo, tier, error } },
  };
}

/** All results of a batch in order, each after a line that names its call. */
export function toBatchResult(
  calls: readonly { readonly id: string }[],
  result: BatchResult | BatchEstimate,
  parts: MapParts,
): CallToolResult {
  const body = new ResultContent(parts, parts.limits.mcpTextBytesMax);
  if (!('results' in result)) return { content: [{ type: 'text', text: toJson(result) }] };
  const { success, metadata, error, results } = result;
  const { totalCalls, successCount, failureCount, skippedCount, durationMs } = metadata;
  body.add(toJson({ success, totalCalls, successCount, failureCount, skippedCount, durationMs }));
  if (error) body.add(errorText(error));
  for (const [at, it] of error ? [] : results.entries()) {
    // Results share the remaining room, so what one does not need is left for the next.
    const share = new ResultContent(parts, Math.floor(body.left / (results.length - at)));
    share.add(`## ${calls[at]?.id}: ${it.tool} ${it.success ? 'ok' : 'failed'}`);
    addResult(share, it, parts.isUntrusted(it.tool));
    body.append(share);
  }
  return { content: body.blocks, ...(!success && { isError: true }) };
}

/** An error that belongs to no call; `error` has its facts for programs. */
export const toErrorResult = (text: string, error?: RpcError): CallToolResult => ({
  content: [{ type: 'text', text }],
  isError: true,
  ...(error && { _meta: { 'ringfence/call': { error: { code: error.code, details: error.data } } } }),
});

export function toProtocolError({ code, message, data }: RpcError): ProtocolError {
  return new ProtocolError(RPC_CODES[code], message, { code, ...data });
}

function addResult(body: ResultContent, result: ToolResult, isUntrusted: boolean): void {
  if (!result.success) body.add(errorText(result.error));
  else if (isUntrusted) addEnclosed(body, result);
  else addData(body, result);
  const { withheld, truncated } = result.metadata;
  for (const it of asides(result.metadata)) body.add(it);
  if (withheld) body.add(`the sandbox kept from the call ${describeWithheld(withheld)}`);
  if (truncated?.ref !== undefined)
    body.link(truncated.ref, truncated.bytesTotal, `[not all output is here; all ${truncated.bytesTotal} bytes are in`);
}

function addData(body: ResultContent, { tool, data }: ToolResult & { success: true }): void {
  const provided = providedIn(data);
  if (provided) for (const it of provided.content) body.addProvided(it);
  else for (const text of modelTexts(tool, data)) body.add(text);
}

/** Adds the data of a tool whose results strangers write, in an envelope that they can't end. */
function addEnclosed(body: ResultContent, result: ToolResult & { success: true }): void {
  const envelope = envelopeOf(result, result.data);
  const { begin, end, inside } = envelope;
  body.addShort(begin);
  const picture = pictureIn(result.data);
  if (picture) body.addProvided(picture);
  for (const text of modelTexts(result.tool, result.data)) body.add(inside(text), envelope);
  body.addShort(end);
}

/** The picture that a tool gives, as `web_screenshot` does. */
function pictureIn(data: unknown): ProvidedData['content'][number] | undefined {
  const { image, mimeType, encoding } = (data ?? {}) as Record<string, unknown>;
  if (typeof image !== 'string' || typeof mimeType !== 'string' || encoding !== 'base64') return undefined;
  return mimeType.startsWith('image/') ? { type: 'image', mimeType, data: image } : undefined;
}

/** Typed content as tools of external providers return it; anything of another shape is plain data. */
function providedIn(data: unknown): ProvidedData | undefined {
  const isLikely = typeof data === 'object' && data !== null && 'content' in data && Array.isArray(data.content);
  return isLikely ? providedData.safeParse(data).data : undefined;
}

/** The facts of an error that a program needs besides its text; details only if they are short. */
function errorFacts({ details, message: _, suggestion: __, ...error }: WireError): object {
  const isShort = details !== undefined && toJson(details).length <= DETAILS_CHARS;
  return isShort ? { ...error, details } : error;
}
const DETAILS_CHARS = 2_000;

/**
 * Structured content, for external providers only. Most clients show their model nothing else if it is present, so our own texts, warnings
 * and links would be lost. Omitted if the provider's text says the same.
 */
function structuredOf(data: unknown, { mcpStructuredBytesMax }: Limits): Record<string, unknown> | undefined {
  const provided = providedIn(data);
  if (!provided?.structured) return undefined;
  const text = toJson(provided.structured);
  if (text.length > mcpStructuredBytesMax) return undefined;
  const structured = parseJson(text) as Record<string, unknown>;
  const says = (it: ProvidedData['content'][number]) =>
    it.type === 'text' &&
    it.text.length <= 2 * mcpStructuredBytesMax &&
    isDeepStrictEqual(jsonOr(it.text, undefined), structured);
  return provided.content.some(says) ? undefined : structured;
}

/** The content of one result within its bounds. */
class ResultContent {
  readonly blocks: McpContentBlock[] = [];
  readonly #parts: MapParts;
  #left: number;
  #mediaLeft: number;

  constructor(parts: MapParts, room: number) {
    this.#parts = parts;
    this.#left = room;
    this.#mediaLeft = Math.floor((parts.limits.mcpMediaBytesMax * room) / parts.limits.mcpTextBytesMax);
  }

  /** Bytes still available. */
  get left(): number {
    return this.#left;
  }

  /** Adds a text; if it does not fit, adds its beginning and a link to all of it, which is kept in the envelope. */
  add(text: string, envelope?: Envelope): void {
    // A UTF-16 code unit takes at most three bytes in UTF-8.
    if (3 * text.length <= this.#left) return this.#push(text, text.length);
    const bytes = Buffer.from(text);
    if (bytes.length <= this.#left) return this.#push(text, bytes.length);
    const shown = cutAt(bytes, Math.max(0, this.#left));
    const kept = envelope ? enclosed(text, envelope) : text;
    const ref = this.#parts.keep(kept);
    const start = envelope ? Buffer.byteLength(envelope.begin) + 1 : 0;
    if (shown > 0) this.#push(bytes.toString('utf8', 0, shown), shown);
    this.link(
      ref,
      Buffer.byteLength(kept),
      `[cut: ${shown} of ${bytes.length} bytes are shown; the rest is in`,
      `?offset=${start + shown}`,
    );
  }

  /** Adds a short text of ours whole, whatever room is left. */
  addShort(text: string): void {
    this.#push(text, Buffer.byteLength(text));
  }

  /** Adds a provider's content block as MCP content. */
  addProvided(block: ProvidedData['content'][number]): void {
    if (block.type === 'text') return this.add(block.text);
    if (block.type === 'other') return this.add(`[content of a kind that is not passed on: ${block.kind}]`);
    if (block.type === 'resource') {
      const { uri, mimeType, text, data } = block;
      const of = { uri, mimeType };
      if (text !== undefined && Buffer.byteLength(text) > this.#left) return this.add(text);
      if (text !== undefined) return this.#pushWhole({ type: 'resource', resource: { ...of, text } }, text.length);
      return this.#pushMedia({ type: 'resource', resource: { ...of, blob: data ?? '' } }, data ?? '');
    }
    if (block.type === 'resource_link') return this.#pushWhole({ ...block }, block.uri.length);
    const { type, mimeType, data } = block;
    this.#pushMedia({ type, mimeType, data }, data);
  }

  /** Adds a link to a complete text. */
  link(ref: string, size: number, note: string, query = ''): void {
    const uri = `${uriOf(ref)}${query}`;
    this.blocks.push({ type: 'text', text: `${note} the resource ${uri}]` });
    const link: ResourceLink = { type: 'resource_link', uri, name: `result ${ref}`, mimeType: 'text/plain', size };
    if (this.#parts.links) this.blocks.push(link);
  }

  /** Adds the content of another body. */
  append({ blocks }: ResultContent): void {
    this.blocks.push(...blocks);
    for (const it of blocks) if (it.type === 'text') this.#left -= Buffer.byteLength(it.text);
  }

  #pushWhole(block: McpContentBlock, bytes: number): void {
    this.blocks.push(block);
    this.#left -= bytes;
  }

  /** Adds a picture or sound. These have a bound of their own, since a model does not read them as text. */
  #pushMedia(block: McpContentBlock, data: string): void {
    this.#mediaLeft -= data.length;
    if (this.#mediaLeft >= 0) this.blocks.push(block);
    else
      this.add(`[${block.type} of ${data.length} base64 characters is left out: the bound of one result is reached]`);
  }

  #push(text: string, bytes: number): void {
    this.blocks.push({ type: 'text', text });
    this.#left -= bytes;
  }
}

/** The offset at which a text of more than `max` bytes is cut: after a line end if one is near, never within a character. */
function cutAt(bytes: Buffer, max: number): number {
  const line = bytes.lastIndexOf(0x0a, max - 1) + 1;
  if (line > max / 2) return line;
  let at = max;
  while (at > 0 && ((bytes[at] ?? 0) & 0xc0) === 0x80) at -= 1;
  return at;
}
