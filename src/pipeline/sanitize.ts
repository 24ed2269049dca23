import { ToolError } from '../errors.ts';
import type { Limits } from '../limits.ts';
import type { Stage } from './stage.ts';

/** Results that reach a caller: bounded in size. Secrets are issue 3's. */
export const sanitize =
  (limits: Limits): Stage =>
  (next) =>
  async (call) => {
    const data = await next(call);
    const used = sizeOf(data);
    call.resultBytes = used;
    if (used <= limits.resultBytesMax) return data;
    throw new ToolError('OUTPUT_LIMIT', `the result is ${used} bytes; at most ${limits.resultBytesMax} are returned`, {
      suggestion: 'Ask for a part of it.',
      details: { limit: limits.resultBytesMax, used, enforcedBy: 'daemon' },
    });
  };

/** About what it takes on the wire: strings and bytes whole, 8 bytes for everything else. */
function sizeOf(value: unknown): number {
  if (typeof value === 'string') return Buffer.byteLength(value);
  if (value instanceof Uint8Array) return value.length;
  if (typeof value !== 'object' || value === null) return 8;
  let size = 8;
  for (const key in value) size += key.length + sizeOf((value as Record<string, unknown>)[key]);
  return size;
}
