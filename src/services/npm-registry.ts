/** Reads an npm registry: answers up to a bound, and packages that have the hash which the registry tells. */
import { createHash } from 'node:crypto';
import { setGlobalProxyFromEnv } from 'node:http';
import * as z from 'zod';
import { OperatorError } from '../base/errors.ts';
import { readUpTo } from '../base/text/bounded.ts';
import { jsonOr } from '../base/text/json.ts';

/** Members of a version that name its archive, with the hash as lockfiles have it. */
export const dist = z.looseObject({ tarball: z.url(), integrity: z.string().regex(/^sha512-[\w+/=]{88}$/) });

export interface FetchBounds {
  readonly bytesMax: number;
  readonly timeoutMs: number;
  /** Whether an answer may send to another URL; `follow` when absent. */
  readonly redirect?: 'error';
}

/** Requests of this process go by the proxy that its environment names. */
setGlobalProxyFromEnv();

/** The body of an answer. Throws OperatorError for another status, too many bytes, too much time. */
export async function fetchBytes(url: string, { bytesMax, timeoutMs, ...how }: FetchBounds): Promise<Buffer> {
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(timeoutMs), ...how });
    if (!answer.ok) throw new OperatorError(`${url} answers with status ${answer.status}`);
    const bytes = answer.body ? await readUpTo(answer.body, bytesMax) : Buffer.alloc(0);
    if (bytes) return bytes;
    throw new OperatorError(`${url} has more than ${bytesMax} bytes`);
  } catch (error) {
    if (error instanceof OperatorError) throw error;
    const { message, cause } = error as Error;
    throw new OperatorError(`${url} can't be fetched: ${cause instanceof Error ? cause.message : message}`);
  }
}

/** The JSON of an answer about `what`. Throws OperatorError. */
export function readAnswer<Shape>(shape: z.ZodType<Shape>, bytes: Buffer, what: string): Shape {
  const read = shape.safeParse(jsonOr(bytes.toString('utf8'), undefined));
  if (read.success) return read.data;
  throw new OperatorError(`the answer of the registry about ${what} is no listing that can be read`);
}

/** The bytes of an archive. Throws OperatorError if they don't have the hash that the registry told. */
export async function fetchArchive(
  { tarball, integrity }: Pick<z.output<typeof dist>, 'tarball' | 'integrity'>,
  bounds: FetchBounds,
): Promise<Buffer> {
  const bytes = await fetchBytes(tarball, bounds);
  const hash = `sha512-${createHash('sha512').update(bytes).digest('base64')}`;
  if (hash === integrity) return bytes;
  throw new OperatorError(`${tarball} has the hash ${hash}, not ${integrity} as the registry says`);
}
