/** Looks at previews, commits and discards them, for those who may: the session of the command, and others of its principal. */
import type { CommitResult, ToolResult } from '../../base/call.ts';
import { RpcError, ToolError, type WireError } from '../../base/errors.ts';
import { isBelow } from '../../base/paths.ts';
import type { PreviewChange } from '../../base/preview.ts';
import { commitInput } from '../../pipeline/commit-input.ts';
import type { KeptPreview, Previews } from '../../store/previews.ts';
import type { NamedTool } from '../../tools/tool.ts';
import type { Params } from '../../wire/protocol/messages.ts';
import type { Session } from '../session.ts';
import type { UndoParts } from './undo.ts';

export interface PreviewMethodParts {
  readonly previews: Previews;
  /** Tools that no session has. */
  readonly internalTools: { readonly diff: NamedTool; readonly commit: NamedTool; readonly askedCommit: NamedTool };
}

/** The handlers of `calls.diff`, `calls.commit` and `calls.discard`. */
export const previewMethods = (parts: PreviewMethodParts) => ({
  'calls.diff': ({ session }: { session: Session }, params: Params<'calls.diff'>) => diff(session, params, parts),
  'calls.commit': ({ session }: { session: Session }, params: Params<'calls.commit'>) => commit(session, params, parts),
  'calls.discard': ({ session }: { session: Session }, { previewId }: Params<'calls.discard'>) => {
    const { id } = find(session, previewId, parts);
    parts.previews.discard(id);
    return { discarded: true };
  },
});

/** Throws RpcError INVALID_PARAMS. */
function find(session: Session, id: string, { previews }: PreviewMethodParts): KeptPreview {
  const { id: sessionId, workspace, delegation } = session.options;
  // A delegated session reaches only what it did itself.
  const principal = delegation ? '' : session.options.principal;
  try {
    return previews.find(id, { sessionId, principal, workspace });
  } catch (error) {
    if (!(error instanceof ToolError)) throw error;
    throw new RpcError('INVALID_PARAMS', `${error.message}. ${error.extras.suggestion}`);
  }
}

async function diff(
  session: Session,
  { previewId, path }: Params<'calls.diff'>,
  parts: PreviewMethodParts,
): Promise<PreviewChange | { readonly path: string; readonly error: WireError }> {
  const { id } = find(session, previewId, parts);
  using _ = parts.previews.use(id);
  const result = (await session.callInternal(parts.internalTools.diff, {
    previewId: id,
    path,
  })) as ToolResult<PreviewChange>;
  return result.success ? result.data : { path, error: result.error };
}

async function commit(
  session: Session,
  { previewId, paths, force }: Params<'calls.commit'>,
  parts: PreviewMethodParts,
): Promise<CommitResult> {
  const kept = find(session, previewId, parts);
  const { id, isAsked } = kept;
  const tool = isAsked ? parts.internalTools.askedCommit : parts.internalTools.commit;
  const input = commitInput(kept, paths, force);
  const nothing = { previewId: id, committed: [], removed: [], merged: [], conflicts: [], undo: 'none' } as const;
  const unchanged = input.only?.find(
    (path) => !kept.steps.some((it) => isBelow(path, it.path) || isBelow(it.path, path)),
  );
  if (unchanged !== undefined) return { ...nothing, error: notChanged(unchanged).toWire() };
  if (input.changes.length === 0) {
    if (!paths && kept.shown.unsupported.length === 0) parts.previews.discard(id);
    return nothing;
  }
  using use = parts.previews.use(id);
  const result = await session.callInternal(tool, input);
  use[Symbol.dispose]();
  const base = { ...nothing, callId: result.callId };
  if (!result.success) return { ...base, error: result.error };
  const { conflicts, ...done } = result.data as Pick<CommitResult, 'committed' | 'removed' | 'merged' | 'conflicts'>;
  if (conflicts.length === 0 && !paths) parts.previews.discard(id);
  return { ...base, ...done, conflicts, undo: result.metadata.undo };
}

/** Nobody is asked about a commit of nothing. */
const notChanged = (path: string): ToolError =>
  new ToolError('NOT_FOUND', `the preview has no change of \`${path}\``, {
    suggestion: 'Name paths that its list of changes holds.',
  });

/** What the methods on kept changes need: `calls.undo`, `calls.diff`, `calls.commit`, `calls.discard`. */
export interface KeptChangesParts extends UndoParts, PreviewMethodParts {
  readonly internalTools: UndoParts['internalTools'] & PreviewMethodParts['internalTools'];
}
