/** What commands met at masks and read-only mounts, as somebody tells who hears of their calls on paths (decision 0015). */
import type { Met, Walls } from './path-walls.ts';

export interface MetOften extends Met {
  readonly count: number;
}

/** Of all commands of a host, except those of tools that only read, which know themselves what is hidden from them. */
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
