/**
 * What calls come to, in the words of MCP. Architecture invariant: one of three places where errors are converted (here: to
 * `isError` results, which a model can act on, and JSON-RPC errors, which it never sees).
 */
import { type CallToolResult, ProtocolError, type ResourceLink } from '@modelcontextprotocol/server';
import type { BatchEstimate, BatchResult, ToolResult } from '../call.ts';
import { describeWithheld } from '../call.ts';
import { RPC_CODES, type RpcError, type WireError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import { parseJson } from '../parse-json.ts';
import { toJson } from '../protocol/json.ts';
import { errorText, isRaw, textsOf } from '../protocol/result-text.ts';
import { type ProvidedData, providedData } from '../providers/messages.ts';

type Block = CallToolResult['content'][number];

export interface MapParts {
  readonly limits: Limits;
  /** Keeps a text that does not fit, and gives its ref. */
  keep(text: string): string;
  /** Whether the client knows links to resources (since 2025-06-18). */
  readonly links: boolean;
}

export const uriOf = (ref: string): string => `ringfence://result/${ref}`;

export function toCallResult(result: ToolResult, parts: MapParts): CallToolResult {
  const body = new Body(parts, parts.limits.mcpTextBytesMax);
  addResult(body, result);
  const { metadata, callId } = result;
  const { durationMs, tier, cached, undo } = metadata;
  const told = result.success ? structuredOf(result.data, parts.limits) : { error: structuredError(result.error) };
  return {
    content: body.blocks,
    ...(told && { structuredContent: told }),
    ...(!result.success && { isError: true }),
    _meta: { 'ringfence/call': { callId, durationMs, cached, undo, ...(tier && { tier }) } },
  };
}

/** All results of a batch in their order, each under a line that says which it is. */
export function toBatchResult(
  calls: readonly { readonly id: string }[],
  result: BatchResult | BatchEstimate,
  parts: MapParts,
): CallToolResult {
  const body = new Body(parts, parts.limits.mcpTextBytesMax);
  if (!('results' in result)) return { content: [{ type: 'text', text: toJson(result) }] };
  const { success, metadata, error, results } = result;
  const { totalCalls, successCount, failureCount, skippedCount, durationMs } = metadata;
  body.add(toJson({ success, totalCalls, successCount, failureCount, skippedCount, durationMs }));
  if (error) body.add(errorText(error));
  for (const [at, it] of error ? [] : results.entries()) {
    // What one does not use the next ones may.
    const share = new Body(parts, Math.floor(body.left / (results.length - at)));
    share.add(`## ${calls[at]?.id}: ${it.tool} ${it.success ? 'ok' : 'failed'}`);
    addResult(share, it);
    body.take(share);
  }
  return { content: body.blocks, ...(!success && { isError: true }) };
}

/** A failure that no call has. */
export const toErrorResult = (text: string): CallToolResult => ({ content: [{ type: 'text', text }], isError: true });

/** A fault of the conversation. */
export function toProtocolError({ code, message, data }: RpcError): ProtocolError {
  return new ProtocolError(RPC_CODES[code], message, { code, ...data });
}

function addResult(body: Body, result: ToolResult): void {
  const provided = result.success ? providedIn(result.data) : undefined;
  if (provided) for (const it of provided.content) body.addProvided(it);
  else if (result.success) for (const text of textsOf(result.data)) body.add(text);
  else body.add(errorText(result.error));
  const { warnings = [], denied = [], withheld, truncated } = result.metadata;
  for (const it of warnings) body.add(`warning: ${it}`);
  if (denied.length > 0) body.add(`kept from: ${toJson(denied)}`);
  if (withheld) body.add(`the sandbox kept from it ${describeWithheld(withheld)}`);
  if (truncated?.ref !== undefined)
    body.link(truncated.ref, truncated.bytesTotal, `[not all output is here; all ${truncated.bytesTotal} bytes are in`);
}

/** Content of kinds, as tools of external providers give it; what only looks like it is data like any other. */
function providedIn(data: unknown): ProvidedData | undefined {
  const isLikely = typeof data === 'object' && data !== null && 'content' in data && Array.isArray(data.content);
  return isLikely ? providedData.safeParse(data).data : undefined;
}

/** The machine's form: details only where they are short. */
function structuredError({ details, ...error }: WireError): object {
  const isShort = details !== undefined && toJson(details).length <= DETAILS_CHARS;
  return isShort ? { ...error, details } : error;
}
const DETAILS_CHARS = 2_000;

/** Small data without texts; larger would only be sent twice. */
function structuredOf(data: unknown, { mcpStructuredBytesMax }: Limits): Record<string, unknown> | undefined {
  if (typeof data !== 'object' || data === null || Array.isArray(data)) return undefined;
  const provided = providedIn(data);
  if (!provided && Object.values(data).some(isRaw)) return undefined;
  if (provided && !provided.structured) return undefined;
  const text = toJson(provided?.structured ?? data);
  return text.length <= mcpStructuredBytesMax ? (parseJson(text) as Record<string, unknown>) : undefined;
}

/** The content of one result, as far as there is room. */
class Body {
  readonly blocks: Block[] = [];
  readonly #parts: MapParts;
  #left: number;
  #mediaLeft: number;

  constructor(parts: MapParts, room: number) {
    this.#parts = parts;
    this.#left = room;
    this.#mediaLeft = Math.floor((parts.limits.mcpMediaBytesMax * room) / parts.limits.mcpTextBytesMax);
  }

  /** Bytes that there is room for. */
  get left(): number {
    return this.#left;
  }

  /** Adds a text, or so much of it as there is room for, and where the rest is. */
  add(text: string): void {
    // A UTF-16 unit is at most three bytes.
    if (3 * text.length <= this.#left) return this.#push(text, text.length);
    const bytes = Buffer.from(text);
    if (bytes.length <= this.#left) return this.#push(text, bytes.length);
    const shown = cutAt(bytes, Math.max(0, this.#left));
    const ref = this.#parts.keep(text);
    if (shown > 0) this.#push(bytes.toString('utf8', 0, shown), shown);
    this.link(
      ref,
      bytes.length,
      `[cut: ${shown} of ${bytes.length} bytes are shown; the rest is in`,
      `?offset=${shown}`,
    );
  }

  /** Adds what a provider gave, in the kinds of MCP. */
  addProvided(block: ProvidedData['content'][number]): void {
    if (block.type === 'text') return this.add(block.text);
    if (block.type === 'other') return this.add(`[content of a kind that is not passed on: ${block.kind}]`);
    if (block.type === 'resource') {
      const { uri, mimeType, text, data } = block;
      const of = { uri, ...(mimeType !== undefined && { mimeType }) };
      if (text !== undefined && Buffer.byteLength(text) > this.#left) return this.add(text);
      if (text !== undefined) return this.#pushWhole({ type: 'resource', resource: { ...of, text } }, text.length);
      return this.#pushMedia({ type: 'resource', resource: { ...of, blob: data ?? '' } }, data ?? '');
    }
    if (block.type === 'resource_link') return this.#pushWhole({ ...block }, block.uri.length);
    const { type, mimeType, data } = block;
    this.#pushMedia({ type, mimeType, data }, data);
  }

  /** Says where a whole text is. */
  link(ref: string, size: number, note: string, query = ''): void {
    const uri = `${uriOf(ref)}${query}`;
    this.blocks.push({ type: 'text', text: `${note} the resource ${uri}]` });
    const link: ResourceLink = { type: 'resource_link', uri, name: `result ${ref}`, mimeType: 'text/plain', size };
    if (this.#parts.links) this.blocks.push(link);
  }

  /** Adds what another one has. */
  take({ blocks }: Body): void {
    this.blocks.push(...blocks);
    for (const it of blocks) if (it.type === 'text') this.#left -= Buffer.byteLength(it.text);
  }

  #pushWhole(block: Block, bytes: number): void {
    this.blocks.push(block);
    this.#left -= bytes;
  }

  /** Pictures and sounds are no text for a model to read; they have room of their own. */
  #pushMedia(block: Block, data: string): void {
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

/** Where a text of more than `max` bytes is cut: behind a line where one ends near, never within a character. */
function cutAt(bytes: Buffer, max: number): number {
  const line = bytes.lastIndexOf(0x0a, max - 1) + 1;
  if (line > max / 2) return line;
  let at = max;
  while (at > 0 && ((bytes[at] ?? 0) & 0xc0) === 0x80) at -= 1;
  return at;
}
