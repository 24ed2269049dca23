/** What a client asks for before its first request, and the folder that follows from it. */
import * as z from 'zod';
import { RpcError } from '../errors.ts';
import type { ToolChoice } from './tools.ts';

/** What the bridge says first; a client of the socket itself may leave it out. */
export const OPEN_METHOD = 'notifications/ringfence/open';

const path = () => z.string().min(1).max(4096);

const openingSchema = z.strictObject({
  /** The folder to work in, as the person said it. */
  workspace: path().optional(),
  /** The project that the client says it works on. */
  project: path().optional(),
  /** Where it was started. */
  cwd: path().optional(),
  tools: z.array(z.string().min(1).max(128)).max(256).default([]),
  readOnly: z.boolean().default(false),
  policy: z.string().min(1).max(128).optional(),
});
export type Opening = z.output<typeof openingSchema>;

export const PLAIN_OPENING: Opening = openingSchema.parse({}, { jitless: true });

/** Throws RpcError INVALID_PARAMS. */
export function parseOpening(raw: unknown): Opening {
  const parsed = openingSchema.safeParse(raw ?? {});
  if (parsed.success) return parsed.data;
  throw new RpcError('INVALID_PARAMS', `what the client asked for is not right: ${z.prettifyError(parsed.error)}`);
}

export const choiceOf = ({ tools, readOnly }: Opening): ToolChoice => ({ tools, readOnly });

/**
 * The folder to work in: as it was said, else the first one that may be meant and is in a workspace of the daemon. Undefined, for
 * the daemon's first workspace, where nothing was said at all. Throws RpcError FORBIDDEN where none may be.
 */
export function folderOf(
  { workspace, project, cwd }: Opening,
  roots: readonly string[],
  resolve: (folder: string) => { workspace: string },
): string | undefined {
  if (workspace !== undefined) return resolve(workspace).workspace;
  const meant = [project, ...roots, cwd].filter((it) => it !== undefined);
  for (const folder of meant) {
    try {
      return resolve(folder).workspace;
    } catch (error) {
      if (!(error instanceof RpcError)) throw error;
    }
  }
  if (meant.length === 0) return undefined;
  throw new RpcError(
    'FORBIDDEN',
    `no folder of this client is in a workspace of the daemon (${meant.slice(0, 4).join(', ')}); name one with --workspace DIR, or add one to the daemon: ringfence workspace add DIR`,
  );
}
