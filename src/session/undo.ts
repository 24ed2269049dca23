/** Takes calls back for who may: their own session, others of their principal, operators. */
import type { CallRecord, ToolResult } from '../call.ts';
import { RpcError, ToolError, type WireError } from '../errors.ts';
import type { NamedTool } from '../pipeline/stage.ts';
import type { Params } from '../protocol/messages.ts';
import type { UndoJournal } from '../store/undo-journal.ts';
import type { Session } from './session.ts';

export interface UndoParts {
  readonly undoJournal: UndoJournal;
  /** The tool that takes calls back, which no session has. */
  readonly undoTool: NamedTool;
}

interface UndoAnswer {
  /** Of the undo itself: it can be undone, too. Absent where nothing was tried. */
  readonly callId?: string;
  readonly restored: readonly string[];
  readonly conflicts: readonly string[];
  readonly merged: readonly string[];
  /** How far the undo can be undone. */
  readonly undo: ToolResult['metadata']['undo'];
  /** Why nothing was restored. */
  readonly error?: WireError;
}

const NOTHING = { restored: [], conflicts: [], merged: [], undo: 'none' } as const;

/** Answers `calls.undo`. `known` is the call as far as it is remembered. Throws RpcError INVALID_PARAMS. */
export async function undoCall(
  session: Session,
  { callId, force }: Params<'calls.undo'>,
  { undoJournal, undoTool, known }: UndoParts & { known: CallRecord | undefined },
): Promise<UndoAnswer> {
  const { id, principal, role, workspace } = session.options;
  const found = undoJournal.find(callId, { id, principal, role, workspace });
  if (!found && !known)
    throw new RpcError('INVALID_PARAMS', `this session has no call ${callId}, or it is forgotten by now`);
  if (!found) return { ...NOTHING, error: notKept(callId, known).toWire() };
  if (found.workspace !== workspace)
    throw new RpcError('INVALID_PARAMS', `call ${callId} was made in another workspace; undo it from there`);
  const { key, paths } = found;
  const result = await session.callInternal(undoTool, { callId, key, force, paths });
  const base = { ...NOTHING, callId: result.callId };
  if (!result.success) return { ...base, error: result.error };
  return { ...base, ...(result.data as Pick<UndoAnswer, 'restored'>), undo: result.metadata.undo };
}

function notKept(callId: string, known: CallRecord | undefined): ToolError {
  const { result, state } = known ?? {};
  const why = (() => {
    if (!result) return `it is ${state?.status ?? 'not over'}`;
    if (result.metadata.undo !== 'none') return 'its journal is dropped by now: it was too old, or much came after it';
    if (result.metadata.tier === 'execute') return 'what commands change is not kept';
    return result.metadata.filesChanged?.length ? 'it changed more than is kept' : 'it changed no file';
  })();
  return new ToolError('UNSUPPORTED', `call ${callId} can not be undone: ${why}`);
}
