export type Undoable = 'full' | 'partial' | 'none';

/** A call whose changes are kept. */
export interface JournalledCall {
  readonly key: string;
  readonly callId: string;
  readonly sessionId: string;
  readonly principal: string;
  readonly workspace: string;
  /** Relative to the workspace. */
  readonly paths: readonly string[];
}

/** The session that asks for an undo. */
export interface Undoer {
  readonly id: string;
  readonly principal: string;
  readonly role: 'agent' | 'operator';
  readonly workspace: string;
}
