/** Undoes calls for those who may: their own session, other sessions of their principal, operators. */
import type { CallRecord, NamedCall, UndoResult } from '../../base/call.ts';
import { RpcError, ToolError } from '../../base/errors.ts';
import type { ItemOwner, Quarantine } from '../../hosts/quarantine/quarantine.ts';
import type { UndoJournal } from '../../store/undo/undo-journal.ts';
import type { NamedTool } from '../../tools/tool.ts';
import type { Params } from '../../wire/protocol/messages.ts';
import type { Session } from '../session.ts';

export interface UndoParts {
  readonly undoJournal: UndoJournal;
  /** Tools that no session has. */
  readonly internalTools: { readonly undo: NamedTool };
}

const NOTHING = { restored: [], removed: [], conflicts: [], merged: [], undo: 'none' } as const;

interface UndoCallParts extends UndoParts {
  readonly quarantine: Pick<Quarantine, 'drop' | 'list'>;
  /** The call as far as it is remembered. */
  recordOf(named: NamedCall): CallRecord | undefined;
}

/** Answers `calls.undo`. Throws RpcError INVALID_PARAMS. */
export async function undoCall(
  session: Session,
  params: Params<'calls.undo'>,
  { undoJournal, internalTools, quarantine, recordOf }: UndoCallParts,
): Promise<UndoResult> {
  const { id, role, workspace, delegation } = session.options;
  // A delegated session undoes only what it did itself.
  const principal = delegation ? '' : session.options.principal;
  const undoer = { id, principal, role, workspace };
  const last = 'last' in params ? undoJournal.last(undoer) : undefined;
  const callId = 'last' in params ? last?.callId : params.callId;
  if (callId === undefined) throw new RpcError('INVALID_PARAMS', 'no call in this workspace can be undone now');
  const named = { callId, of: 'last' in params ? last?.sessionId : params.session };
  const found = last ?? undoJournal.find(named, undoer);
  if (dropOf(named, undoer, quarantine) && !found) return { ...NOTHING, undone: callId };
  const known = found ? undefined : recordOf(named);
  if (!found && !known)
    throw new RpcError('INVALID_PARAMS', `this session has no call ${callId}, or its record is no longer kept`);
  if (!found) return { ...NOTHING, error: notKept(callId, known).toWire() };
  if (found.workspace !== workspace)
    throw new RpcError('INVALID_PARAMS', `call ${callId} was made in another workspace; undo it from there`);
  const { key, paths } = found;
  const input = { callId, keys: [key], force: params.force, paths };
  const record = recordOf(named);
  const { key: _, ...result } = await runUndo(session, input, { undoJournal, internalTools });
  return { ...result, undone: callId, ...(result.restored.length > 0 && leftBy(record)) };
}

/** Removes what a call of theirs left at protected names, as if it were still there; false if there is nothing. */
function dropOf(
  { callId, of }: NamedCall,
  { id, principal, role, workspace }: { id: string; principal: string; role: string; workspace: string },
  quarantine: UndoCallParts['quarantine'],
): boolean {
  const isTheirs = (it: ItemOwner) =>
    (of === undefined || it.sessionId === of) &&
    (role === 'operator' || it.sessionId === id || it.principal === principal);
  const items = quarantine.list(workspace).filter(({ owner }) => owner.callId === callId && isTheirs(owner));
  for (const it of items) quarantine.drop(it);
  return items.length > 0;
}

/** What an undo can't bring back of a call. Only the built-in installation may name a command for a person to run. */
function leftBy(record: CallRecord | undefined): Pick<UndoResult, 'left' | 'restoreCommand'> {
  const { result, tool } = record ?? {};
  const left = result?.metadata.undoMissing;
  if (!result?.success || !left) return {};
  const { restoreCommand } = result.data as { restoreCommand?: unknown };
  const isTold = tool === 'package_install' && typeof restoreCommand === 'string';
  return { left, ...(isTold && { restoreCommand }) };
}

interface UndoInput {
  readonly callId: string;
  /** Keys of the calls to undo, the newest first. */
  readonly keys: readonly string[];
  readonly paths: readonly string[];
  readonly force: boolean;
  readonly checkpoint?: string;
}

/** Undoes calls as one call of the session; gives the key of that call, too. */
export async function runUndo(
  session: Session,
  input: UndoInput,
  { undoJournal, internalTools }: UndoParts,
): Promise<UndoResult & { readonly key: string }> {
  const result = await session.callInternal(internalTools.undo, input);
  const undo = { sessionId: session.options.id, callId: result.callId };
  const base = { ...NOTHING, callId: result.callId, key: undoJournal.keyOf(undo) };
  if (!result.success) return { ...base, error: result.error };
  undoJournal.recordUndo(undo, input.keys[0] as string);
  return { ...base, ...(result.data as Pick<UndoResult, 'restored'>), undo: result.metadata.undo };
}

function notKept(callId: string, known: CallRecord | undefined): ToolError {
  const { result, state } = known ?? {};
  const why = (() => {
    if (!result) return `it is ${state?.status ?? 'not over'}`;
    if (result.metadata.undo !== 'none')
      return 'its undo data was deleted, because it was too old or to make room for later calls';
    const [first] = result.metadata.undoMissing ?? [];
    if (first) return `what it changed was not kept (${first.path}: ${first.why})`;
    if (!result.metadata.filesChanged?.length) return 'it changed no file';
    return result.metadata.tier === 'execute' ? 'no file holds anything else than before' : 'it changed too much';
  })();
  return new ToolError('UNSUPPORTED', `call ${callId} can't be undone: ${why}`);
}
