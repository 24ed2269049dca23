/** Converts the result of a provider's tool for the gateway: maps each block, and names what it leaves out. */
import type { CallToolResult, ContentBlock } from '@modelcontextprotocol/client';
import { ToolError } from '../../src/base/errors.ts';
import type { ProvidedData } from '../../src/base/provided-data.ts';
import { toHarmless, toPlainText } from '../../src/services/providers/text.ts';

export interface ResultBounds {
  readonly name: string;
  readonly secrets: readonly string[];
  readonly outputBytes: number;
}

const SHOWN_CHARS = 4000;
const BLOCKS_MAX = 4096;

/** Throws UPSTREAM_FAILED with the server's message if the call failed, OUTPUT_LIMIT if the result is too large. */
export function toData(result: CallToolResult, { name, secrets, outputBytes }: ResultBounds): ProvidedData {
  const { content, structuredContent, isError } = result;
  const bytes = JSON.stringify({ content, structuredContent }).length;
  if (bytes > outputBytes || content.length > BLOCKS_MAX) {
    throw new ToolError(
      'OUTPUT_LIMIT',
      `the result of provider ${name} is ${bytes} bytes; at most ${outputBytes} are returned`,
      {
        suggestion: 'Ask for a smaller part of it.',
        details: { limit: outputBytes, used: bytes, enforcedBy: 'provider host' },
      },
    );
  }
  const data = toHarmless(secrets, { content: content.map(toBlock), structured: structuredContent }) as ProvidedData;
  if (!isError) return data;
  const said = data.content.flatMap((it) => (it.type === 'text' ? [it.text] : [])).join('\n');
  throw new ToolError(
    'UPSTREAM_FAILED',
    `provider ${name}: ${toPlainText(said, SHOWN_CHARS) || 'the server gave no reason'}`,
  );
}

function toBlock(block: ContentBlock): ProvidedData['content'][number] {
  switch (block.type) {
    case 'text':
      return { type: 'text', text: block.text };
    case 'image':
    case 'audio':
      return { type: block.type, mimeType: block.mimeType, data: toBase64(block.data) };
    case 'resource': {
      const { uri, mimeType } = block.resource;
      const held = 'blob' in block.resource ? { data: toBase64(block.resource.blob) } : { text: block.resource.text };
      return { type: 'resource', uri, mimeType, ...held };
    }
    case 'resource_link': {
      const { uri, name, mimeType, description } = block;
      return { type: 'resource_link', uri, name, mimeType, description };
    }
    default:
      return { type: 'other', kind: toPlainText(String((block as { type: unknown }).type), 60) };
  }
}

/** Canonical base64 of any form of it. */
const toBase64 = (text: string): string => Buffer.from(text, 'base64').toString('base64');
