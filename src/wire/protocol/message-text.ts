/** A result as one text for a model. */
import type { ToolResult } from '../../base/call.ts';
import { envelopeOf } from './envelope.ts';
import { modelTexts } from './model-text.ts';
import { asides, errorText } from './result-text.ts';

/**
 * The parts of a result that a model needs: data or error, warnings, denials, and whether output is missing. Data whose
 * tool says that strangers wrote them are in an envelope; `isUntrusted` says the same of a tool that does not.
 */
export function messageText(result: ToolResult, isUntrusted = false): string {
  const { truncated } = result.metadata;
  return [
    ...(result.success ? dataTexts(result, isUntrusted) : [errorText(result.error)]),
    ...asides(result.metadata),
    ...(truncated ? [`[not all output is here: it had ${truncated.bytesTotal} bytes]`] : []),
  ].join('\n');
}

/** The data of a result; what strangers wrote, in an envelope. */
function dataTexts(result: ToolResult & { success: true }, isUntrusted: boolean): string[] {
  const texts = modelTexts(result.tool, withoutMedia(result.data));
  if (!isUntrusted && (result.data as { trust?: unknown } | null)?.trust !== 'untrusted') return texts;
  const { begin, end, inside } = envelopeOf(result, result.data);
  return [begin, ...texts.map(inside), end];
}

/** Replaces media of external providers, since megabytes of base64 mean nothing to a model as text. */
function withoutMedia(data: unknown): unknown {
  if (typeof data !== 'object' || data === null || !('content' in data) || !Array.isArray(data.content)) return data;
  return { ...data, content: data.content.map(withoutData) };
}

function withoutData(block: unknown): unknown {
  if (typeof block !== 'object' || block === null || !('mimeType' in block) || !('data' in block)) return block;
  return { ...block, data: `[${String(block.data).length} base64 characters are left out]` };
}
