/** Lists the tools of a provider's server; an invalid definition drops only that tool. */
import { type Client, SdkError, SdkErrorCode } from '@modelcontextprotocol/client';
import * as z from 'zod';
import type { Limits } from '../../src/base/limits.ts';

/** A tool as the server describes it, unchecked. */
export type ListedTool = Readonly<Record<string, unknown>>;

/** The part of the list's shape that paging needs. */
const page = z.looseObject({ tools: z.array(z.unknown()), nextCursor: z.string().optional() });

/**
 * All tools of a server. The SDK refuses a whole list for one invalid definition; the pages are then requested again
 * and read as they are, so that only that tool is lost. Throws for a server without a list, or with too long a list.
 */
export async function listedTools(client: Client, limits: Limits): Promise<ListedTool[]> {
  const options = { timeout: limits.providerStartMs, cacheMode: 'refresh' } as const;
  try {
    return assertFew((await client.listTools(undefined, options)).tools, limits);
  } catch (error) {
    if (!(error instanceof SdkError && error.code === SdkErrorCode.InvalidResult)) throw error;
  }
  const tools: unknown[] = [];
  let cursor: string | undefined;
  for (let pages = 0; pages < limits.providerPagesMax; pages++) {
    const params = cursor === undefined ? {} : { cursor };
    const { tools: more, nextCursor } = await client.request({ method: 'tools/list', params }, page, options);
    assertFew(tools, limits, more.length);
    tools.push(...more);
    if (nextCursor === undefined || nextCursor === cursor) break;
    cursor = nextCursor;
  }
  return tools.map((it) => (typeof it === 'object' && it !== null ? (it as ListedTool) : {}));
}

function assertFew<T>(tools: readonly T[], { providerToolsMax }: Limits, more = 0): T[] {
  const count = tools.length + more;
  if (count > providerToolsMax)
    throw new Error(`the server has ${count} tools; at most ${providerToolsMax} are accepted`);
  return [...tools];
}
