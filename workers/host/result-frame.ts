/** Encodes a job's result as a frame for the gateway. */
import { ToolError } from '../../src/base/errors.ts';
import type { Limits } from '../../src/base/limits.ts';
import type { JobResult } from '../../src/hosts/job.ts';
import { toFrame } from '../../src/wire/protocol/frame.ts';

/** Depth and elements that the message around a result adds. */
const ENVELOPE = { depth: 8, elements: 1000 };

/** Encodes a result; one that does not fit into a message fails its call, not its host. */
export function toResultFrame(done: { readonly id: number; readonly result: JobResult }, limits: Limits): Buffer {
  const { frameBytesMax, messageDepthMax, messageElementsMax } = limits;
  const bounds = {
    messageDepthMax: messageDepthMax - ENVELOPE.depth,
    messageElementsMax: messageElementsMax - ENVELOPE.elements,
  };
  try {
    return toFrame({ done }, frameBytesMax, bounds);
  } catch (error) {
    const { id, result } = done;
    const limit = new ToolError('OUTPUT_LIMIT', `the result can't be sent: ${(error as Error).message}`, {
      suggestion: 'Ask for a smaller part of it.',
    });
    const usage = { ...result.usage, verdict: 'output' } as const;
    return toFrame({ done: { id, result: { ok: false, error: limit.toWire(), usage } } }, frameBytesMax);
  }
}
