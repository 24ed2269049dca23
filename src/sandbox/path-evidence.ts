/** What commands met at masks and read-only mounts, as somebody tells who hears of their calls on paths (decision 0015). */
import type { CommandRequest } from './command.ts';
import type { Met, Walls } from './path-walls.ts';

/**
 * Whether a command has walls of its own that it may run into. Of others nothing is heard, at no cost, not even that the system
 * is read-only; nor of those of tools that only read, which know what they asked for.
 */
export const hasWalls = ({ masks, readOnly = false }: Pick<CommandRequest, 'masks' | 'readOnly'>): boolean =>
  !readOnly && masks.hidden.length + masks.readOnly.length + masks.pinned.length > 0;

export interface MetOften extends Met {
  readonly count: number;
}

/** Of all commands of a host. */
export interface PathEvidence {
  /** Whether this machine tells of calls. Until that is known, commands begin without. */
  readonly isOn: boolean;
  /** Finds it out, once; settles when it is known. */
  ready(): Promise<void>;
  /** Descriptors for the start of a command, the first of which becomes `line`: its way to us, and its first program. */
  descriptorsAt(line: number): readonly [line: number, program: number];
  /** For a command behind such walls. */
  open(walls: Walls): PathRun;
}

/** Of one command. Disposed of, nothing of it is kept. */
export interface PathRun extends Disposable {
  /** The first variable of its first program. */
  readonly greeting: readonly [name: string, value: string];
  /** To be called before its first program runs: what it meets is kept. */
  begin(): void;
  /**
   * What it met, when all its processes are gone; nothing where that is not known in time. Throws SANDBOX_UNAVAILABLE where its
   * calls failed because nobody could be told of them.
   */
  met(withinMs?: number): Promise<readonly MetOften[]>;
}
