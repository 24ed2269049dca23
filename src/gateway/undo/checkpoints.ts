/** Names points of a workspace, tells what changed since, and returns to them by undoing all calls since, as one call. */
import type { UndoResult } from '../../base/call.ts';
import { RpcError, ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import { type CallSince, type Checkpoint, callsToUndo } from '../../store/undo/checkpoints.ts';
import type { Undoer } from '../../store/undo/journalled-call.ts';
import type { Params } from '../../wire/protocol/messages.ts';
import type { ClientLink } from '../client-link.ts';
import type { Session } from '../session.ts';
import { runUndo, type UndoParts } from './undo.ts';

export interface CheckpointParts extends UndoParts {
  readonly limits: Limits;
  readonly powers: Pick<Powers, 'now'>;
}

interface Chosen {
  readonly checkpoint: Checkpoint;
  /** All calls since that changed something, the newest first. */
  readonly calls: readonly CallSince[];
}

/** The handlers of `checkpoints.*`. They throw RpcError. */
export function checkpointMethods(parts: CheckpointParts) {
  const { checkpoints } = parts.undoJournal;
  return {
    'checkpoints.name': ({ session }: ClientLink, { name }: Params<'checkpoints.name'>) => {
      // All sessions of a principal share its checkpoints, so this would replace or push out its parent's.
      if (session.options.delegation)
        throw new RpcError('FORBIDDEN', 'a session with a token that was passed on names no checkpoints');
      const nowMs = parts.powers.now();
      const replaced = checkpoints.set(name, undoerOf(session), nowMs);
      return { name, at: toTime(nowMs), replaced };
    },
    'checkpoints.list': ({ session }: ClientLink) => ({
      checkpoints: checkpoints.list(undoerOf(session)).map((it) => ({
        name: it.name,
        at: toTime(it.atMs),
        principal: it.principal,
        calls: callsToUndo(checkpoints.since(it, undoerOf(session), sessionOf(session, {}))).length,
      })),
    }),
    'checkpoints.diff': ({ session }: ClientLink, params: Params<'checkpoints.diff'>) => {
      const { checkpoint, calls } = choose(session, params, parts);
      const undone = callsToUndo(calls);
      const paths = new Set(undone.flatMap((it) => it.paths));
      const { checkpointPathsMax } = parts.limits;
      return {
        name: checkpoint.name,
        at: toTime(checkpoint.atMs),
        calls: undone.map(({ callId, sessionId, atMs, undo }) => ({ callId, sessionId, at: toTime(atMs), undo })),
        paths: [...paths].sort().slice(0, checkpointPathsMax),
        pathsTotal: paths.size,
      };
    },
    'checkpoints.return': ({ session }: ClientLink, params: Params<'checkpoints.return'>) =>
      returnTo(session, params, parts),
  };
}

type CheckpointResult = UndoResult & { readonly calls: readonly string[]; readonly incomplete: readonly string[] };

async function returnTo(
  session: Session,
  params: Params<'checkpoints.return'>,
  parts: CheckpointParts,
): Promise<CheckpointResult> {
  const { limits, undoJournal } = parts;
  const calls = callsToUndo(choose(session, params, parts).calls);
  const base = {
    calls: calls.map((it) => it.callId),
    incomplete: calls.filter((it) => it.undo !== 'full').map((it) => it.callId),
  };
  const nothing = { restored: [], removed: [], conflicts: [], merged: [], undo: 'none' } as const;
  const [newest] = calls;
  if (!newest) return { ...base, ...nothing };
  const paths = [...new Set(calls.flatMap((it) => it.paths))];
  const { checkpointPathsMax, checkpointCallsMax } = limits;
  if (paths.length > checkpointPathsMax || calls.length > checkpointCallsMax)
    return { ...base, ...nothing, error: tooMuch(calls.length, paths.length, limits).toWire() };
  const keys = calls.map((it) => it.key);
  const input = { callId: newest.callId, keys, paths, force: params.force, checkpoint: params.name };
  const { key, ...result } = await runUndo(session, input, parts);
  if (key !== undefined && !result.error) undoJournal.checkpoints.recordReturn(key, keys);
  return { ...base, ...result };
}

function tooMuch(calls: number, paths: number, { checkpointCallsMax, checkpointPathsMax }: Limits): ToolError {
  return new ToolError(
    'UNSUPPORTED',
    `${calls} calls changed ${paths} paths since; at most ${checkpointCallsMax} calls and ${checkpointPathsMax} paths are undone at once`,
    { suggestion: 'Return to a later checkpoint first, or undo calls one by one.' },
  );
}

function choose(session: Session, params: Params<'checkpoints.diff'>, { undoJournal }: CheckpointParts): Chosen {
  const { checkpoints } = undoJournal;
  const undoer = undoerOf(session);
  const named = checkpoints.list(undoer).filter((it) => it.name === params.name);
  const checkpoint = named.find((it) => it.principal === undoer.principal) ?? named[0];
  if (!checkpoint) throw new RpcError('INVALID_PARAMS', `there is no checkpoint ${params.name} in this workspace`);
  return { checkpoint, calls: checkpoints.since(checkpoint, undoer, sessionOf(session, params)) };
}

const undoerOf = ({ options: { id, principal, role, workspace } }: Session): Undoer => ({
  id,
  principal,
  role,
  workspace,
});

/** The session whose calls are meant; undefined for all that the caller may undo. A delegated session has only its own. */
function sessionOf(
  { options: { id, delegation } }: Session,
  { session }: { session?: string | undefined },
): string | undefined {
  return delegation || session === 'own' ? id : session;
}

const toTime = (ms: number): string => new Date(ms).toISOString();
