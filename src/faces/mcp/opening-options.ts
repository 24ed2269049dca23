/** The options that a client sends before its first request, and the workspace that follows from them. */
import * as z from 'zod';
import { RpcError } from '../../base/errors.ts';
import type { ToolChoice } from './tools.ts';

const path = () => z.string().min(1).max(4096);

const openingSchema = z.strictObject({
  /** The workspace folder that the person named. */
  workspace: path().optional(),
  /** The project folder that the client reports. */
  project: path().optional(),
  /** Working directory of the client. */
  cwd: path().optional(),
  tools: z.array(z.string().min(1).max(128)).max(256).default([]),
  readOnly: z.boolean().default(false),
  policy: z.string().min(1).max(128).optional(),
  mode: z.string().min(1).max(64).optional(),
});
export type OpeningOptions = z.output<typeof openingSchema>;

export const PLAIN_OPENING: OpeningOptions = openingSchema.parse({}, { jitless: true });

/** Validates the options. Throws RpcError INVALID_PARAMS. */
export function parseOpening(raw: unknown): OpeningOptions {
  const parsed = openingSchema.safeParse(raw ?? {});
  if (parsed.success) return parsed.data;
  throw new RpcError('INVALID_PARAMS', `the parameters of the client are not valid: ${z.prettifyError(parsed.error)}`);
}

export const choiceOf = ({ tools, readOnly }: OpeningOptions): ToolChoice => ({ tools, readOnly });

/**
 * The workspace folder: the named one, otherwise the first candidate inside a workspace of the daemon. Undefined, meaning the daemon's
 * first workspace, if there are no candidates. Throws RpcError FORBIDDEN if none is allowed.
 */
export function folderOf(
  { workspace, project, cwd }: OpeningOptions,
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
