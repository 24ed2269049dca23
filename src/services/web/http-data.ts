/** What `http_request` gives of an answer. */
import { decodeText, isText } from '../../base/text/charset.ts';
import { jsonOr } from '../../base/text/json.ts';
import type { Exchange } from './http-exchange.ts';

/** Bounds of the value of a JSON answer. */
interface JsonBounds {
  readonly messageDepthMax: number;
  readonly messageElementsMax: number;
}

export function toHttpData({ status, headers, truncated, finalUrl, body: bytes }: Exchange, bounds: JsonBounds) {
  const source = { contentType: headers['content-type'], isCut: truncated };
  const data = { status, headers, truncated, finalUrl };
  if (!isText(bytes, source)) return { ...data, body: Buffer.from(bytes).toString('base64'), encoding: 'base64' };
  const { text } = decodeText(bytes, source);
  const json = isJson(headers['content-type']) && !truncated ? jsonOf(text, bounds) : undefined;
  return { ...data, body: text, encoding: 'utf-8', json };
}

const isJson = (contentType = ''): boolean => /^\s*application\/(.+\+)?json\s*(;|$)/i.test(contentType);

/** The value of a JSON text; undefined if it is none, or one that no message may hold beside the rest of the result. */
function jsonOf(text: string, { messageDepthMax, messageElementsMax }: JsonBounds): unknown {
  const value = jsonOr(text, undefined);
  return countIn(value, messageDepthMax - DEPTH_OF_RESULT) <= messageElementsMax / 2 ? value : undefined;
}

/** Levels of a message that the result of a call lies in, with some to spare for batches. */
const DEPTH_OF_RESULT = 16;

/** Elements in a value as messages count them; Infinity for one that is nested deeper. */
function countIn(value: unknown, depthMax: number): number {
  if (typeof value !== 'object' || value === null) return 1;
  if (depthMax === 0) return Infinity;
  if (Array.isArray(value)) return value.reduce<number>((sum, it) => sum + countIn(it, depthMax - 1), 1);
  return Object.values(value).reduce<number>((sum, it) => sum + 1 + countIn(it, depthMax - 1), 1);
}
