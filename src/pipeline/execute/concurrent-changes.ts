/** Tells which calls ran beside others in one workspace, so that a result can say that its file changes may be another call's. */

export interface WorkspaceEntry extends Disposable {
  /** Whether no other call was in the workspace since this one entered. */
  readonly isAlone: boolean;
}

export class ConcurrentCalls {
  readonly #entriesByWorkspace = new Map<string, Set<{ isAlone: boolean }>>();

  /** Enters a workspace; disposing the entry leaves it. */
  enter(workspace: string): WorkspaceEntry {
    const entries = this.#entriesByWorkspace.get(workspace) ?? new Set();
    this.#entriesByWorkspace.set(workspace, entries);
    const entry = { isAlone: entries.size === 0, [Symbol.dispose]: () => this.#leave(workspace, entry) };
    for (const other of entries) other.isAlone = false;
    entries.add(entry);
    return entry;
  }

  #leave(workspace: string, entry: { isAlone: boolean }): void {
    const entries = this.#entriesByWorkspace.get(workspace);
    entries?.delete(entry);
    if (entries?.size === 0) this.#entriesByWorkspace.delete(workspace);
  }
}
