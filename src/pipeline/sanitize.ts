/** Bounds the size of results, and hides secrets in all that reaches the caller, the cache and the record. */
import { ToolError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import type { Powers, Timer } from '../powers.ts';
import { type OnSecret, RedactingStream, redactText, redactValue } from '../redact.ts';
import { heldBytes } from '../text/held-bytes.ts';
import { leastOf } from './execute/bounds.ts';
import type { Call, Stage } from './stage.ts';

type Output = Call['output'];

/** Throws OUTPUT_LIMIT for a result that is too large; hides secrets in errors of the stages within. */
export const sanitize =
  (limits: Limits, powers: Pick<Powers, 'after'>): Stage =>
  (next) =>
  async (call) => {
    const output = call.output;
    const redacted = redactOutput((stream, data) => output.call(call, stream, data), powers);
    call.output = redacted.output;
    const onSecret = () => {
      call.outcome.redactions += 1;
    };
    let data: unknown;
    try {
      data = await next(call);
    } catch (thrown) {
      throw redactError(thrown, onSecret);
    } finally {
      redacted.end();
      call.output = output;
    }
    const bytesMax = resultBytesMaxOf(call, limits);
    assertSize(data, bytesMax);
    const shown = redactResult(data, onSecret);
    if (shown !== data) assertSize(shown, bytesMax);
    call.outcome.heldBytes = heldBytes(shown);
    return shown;
  };

/** How long output that may be the beginning of a secret is held back, in ms; then it is shown, unless it holds part of a value. */
const HELD_MS = 100;

/**
 * Wraps an output callback so that its bytes have no secrets; each stream is searched separately. A prompt without a
 * newline is shown HELD_MS later. `end` passes on what is left; nothing may follow.
 */
export function redactOutput(output: Output, powers: Pick<Powers, 'after'>): { output: Output; end(): void } {
  // Created on the first output: most calls have none.
  let streams: Map<'stdout' | 'stderr', RedactingStream> | undefined;
  let showing: Timer | undefined;
  const streamOf = (name: 'stdout' | 'stderr') => {
    streams ??= new Map();
    const stream = streams.get(name) ?? new RedactingStream();
    streams.set(name, stream);
    return stream;
  };
  let ended = false;
  const give = (stream: 'stdout' | 'stderr', data: Uint8Array) => (data.length > 0 ? output(stream, data) : undefined);
  const each = (bytesOf: (stream: RedactingStream) => Uint8Array) => {
    for (const [name, stream] of streams ?? []) void give(name, bytesOf(stream));
  };
  const show = () => {
    showing = undefined;
    each((it) => it.flush());
  };
  return {
    output(name, data) {
      if (ended) return undefined;
      const stream = streamOf(name);
      const given = give(name, stream.push(data));
      if (stream.pending > 0) showing ??= powers.after(HELD_MS, show);
      return given;
    },
    end() {
      ended = true;
      showing?.cancel();
      each((it) => it.end());
    },
  };
}

/** Hides the secrets of a result, except in base64 content: a replacement would change the bytes. */
function redactResult(data: unknown, onSecret: OnSecret): unknown {
  if (typeof data !== 'object' || data === null || !('encoding' in data) || data.encoding !== 'base64')
    return redactValue(data, { onSecret });
  const { content, ...rest } = data as Record<string, unknown>;
  const redacted = redactValue(rest, { onSecret });
  return redacted === rest ? data : { ...(redacted as object), content };
}

/** A copy of the error without secrets; the error itself if it has none, or is not a ToolError, which no caller sees. */
function redactError(thrown: unknown, onSecret: OnSecret): unknown {
  if (!(thrown instanceof ToolError)) return thrown;
  const { cause, ...extras } = thrown.extras;
  const message = redactText(thrown.message, onSecret);
  const redacted = redactValue(extras, { onSecret }) as typeof extras;
  if (message === thrown.message && redacted === extras) return thrown;
  return new ToolError(thrown.code, message, { ...redacted, cause });
}

/** The most bytes of a result. The policy's bound for commands is on their output, which is cut where it is read. */
function resultBytesMaxOf({ checked, policy }: Call, { resultBytesMax: most }: Limits): number {
  if (!checked || checked.tier === 'execute') return most;
  return leastOf(policy, { tier: checked.tier, tool: checked.tool, key: 'outputBytes', most });
}

function assertSize(data: unknown, limit: number): void {
  const used = sizeOf(data);
  if (used <= limit) return;
  throw new ToolError('OUTPUT_LIMIT', `the result is ${used} bytes; at most ${limit} are returned`, {
    suggestion: 'Ask for a smaller part of it.',
    details: { limit, used, enforcedBy: 'daemon' },
  });
}

/** Approximate bytes on the wire: strings and bytes whole, 8 bytes for any other value. */
function sizeOf(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value);
  if (value instanceof Uint8Array) return value.length;
  if (typeof value !== 'object' || value === null) return 8;
  let size = 8;
  for (const key in value) size += key.length + sizeOf((value as Record<string, unknown>)[key]);
  return size;
}
