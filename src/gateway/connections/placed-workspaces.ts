/** Workspaces that this node makes for sessions of a fleet, as the sessions use them. src/fleet/workspaces makes them. */
import { RpcError } from '../../base/errors.ts';
import type { Read } from '../../base/result-shapes.ts';
import type { Answer } from '../../wire/protocol/answers.ts';
import type { Params } from '../../wire/protocol/messages.ts';
import type { ClientLink } from '../client-link.ts';

/** The changes of a workspace, ready to be read or pushed. */
export type CollectedChanges = Read<Answer<'workspaces.collect'>>;

export interface PlacedWorkspace {
  /** Absolute path of the folder that the session works in. */
  readonly folder: string;
  /** What its client is told: how the workspace is opened again, and for how long that works. */
  readonly told: { readonly name: string; readonly branch: string; readonly keptMs: number };
  collect(asked: Params<'workspaces.collect'>): Promise<CollectedChanges>;
  read(asked: Params<'workspaces.read'>): Promise<{ data: Uint8Array; bytesTotal: number; eof: boolean }>;
  upload(asked: Params<'workspaces.upload'>): Promise<{ bytes: number }>;
  unpack(asked: Params<'workspaces.unpack'>): Promise<{ branch: string }>;
  /** Called once when the session has ended: keeps the folder for who has not collected its changes, or removes it. */
  release(): void;
}

export interface PlacedWorkspaces {
  /** Hashes of the repositories that this node has a mirror of. */
  readonly warm: readonly string[];
  /** Makes the workspace that a client has named; `node` is the name of this node. Throws RpcError. */
  open(named: string, node: string): Promise<PlacedWorkspace>;
}

/** Finds the workspace of a session. Throws RpcError INVALID_PARAMS for a session that works in a folder of the machine. */
export type WorkspaceFinder = (caller: ClientLink) => PlacedWorkspace;

/** The handlers of `workspaces.*`. */
export const workspaceMethods = (of: WorkspaceFinder) => ({
  'workspaces.collect': (caller: ClientLink, asked: Params<'workspaces.collect'>) => of(caller).collect(asked),
  'workspaces.read': (caller: ClientLink, asked: Params<'workspaces.read'>) => of(caller).read(asked),
  'workspaces.upload': (caller: ClientLink, asked: Params<'workspaces.upload'>) => of(caller).upload(asked),
  'workspaces.unpack': (caller: ClientLink, asked: Params<'workspaces.unpack'>) => of(caller).unpack(asked),
});

export const notPlaced = (): RpcError =>
  new RpcError('INVALID_PARAMS', 'this session works in a folder of its machine, which nothing has to come back from');
