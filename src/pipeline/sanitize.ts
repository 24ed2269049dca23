/** Bounds the size of results, and hides secrets in all that reaches the caller, the cache and the record. */
import { ToolError } from '../base/errors.ts';
import type { Limits } from '../base/limits.ts';
import type { Powers, Timer } from '../base/powers.ts';
import { type OnSecret, RedactingStream, redactText, redactValue } from '../base/redact.ts';
import { heldBytes } from '../base/text/held-bytes.ts';
import { leastOf } from './execute/bounds.ts';
import { failed, succeeded } from './outcome.ts';
import { type Call, type ClearedCall, outcomeOf, type Stage } from './stage.ts';

type Output = Call['output'];

/** Fails with OUTPUT_LIMIT for a result that is too large; hides secrets in errors of the stages within. */
export const sanitize =
  (limits: Limits, powers: Pick<Powers, 'after'>): Stage<ClearedCall> =>
  (next) =>
  async (call) => {
    const redacted = redactOutput((stream, data) => call.output(stream, data), powers);
    const outcome = await outcomeOf(next, { ...call, output: redacted.output });
    redacted.end();
    let redactions = 0;
    const onSecret = () => {
      redactions += 1;
    };
    if (outcome.error) {
      const error = redactError(outcome.error, onSecret);
      return failed(error, { ...outcome, redactions });
    }
    const bytesMax = resultBytesMaxOf(call, limits);
    const { data } = outcome;
    try {
      assertSize(data, bytesMax);
      const shown = redactResult(data, onSecret);
      if (shown !== data) assertSize(shown, bytesMax);
      return succeeded(shown, { ...outcome, redactions, heldBytes: heldBytes(shown) });
    } catch (thrown) {
      return failed(thrown, { ...outcome, redactions });
    }
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
      const text = give(name, stream.push(data));
      if (stream.pending > 0) showing ??= powers.after(HELD_MS, show);
      return text;
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
  const { content, image, ...rest } = data as Record<string, unknown>;
  const redacted = redactValue(rest, { onSecret });
  if (redacted === rest) return data;
  return { ...(redacted as object), content, image };
}

/** A copy of the error without secrets; the error itself if it has none. */
function redactError(error: ToolError, onSecret: OnSecret): ToolError {
  const { cause, ...extras } = error.extras;
  const message = redactText(error.message, onSecret);
  const redacted = redactValue(extras, { onSecret }) as typeof extras;
  if (message === error.message && redacted === extras) return error;
  return new ToolError(error.code, message, { ...redacted, cause });
}

/** The most bytes of a result. The policy's bound for commands is on their output, which is cut where it is read. */
function resultBytesMaxOf({ checked, policy }: ClearedCall, { resultBytesMax: most }: Limits): number {
  if (checked.tier === 'execute') return most;
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
  if (Array.isArray(value)) {
    for (const item of value) size += sizeOf(item);
    return size;
  }
  for (const key in value) size += key.length + sizeOf((value as Record<string, unknown>)[key]);
  return size;
}
