/** What a test and the process of its daemon tell each other. */

/** What the daemon said at its start: where it listens and how it is confined, or why it did not start. */
export interface Started {
  readonly error?: string;
  readonly confinement?: Confinement;
}

/** How the daemon confines what it runs. */
export interface Confinement {
  /** A, B, C or none: docs/confinement.md. */
  readonly level: string;
  /** What this machine can't confine. */
  readonly missing: readonly string[];
  /** Why the level is what it is, and how to raise it; empty where there is nothing to raise. */
  readonly advice: string;
}

/** A process that a command is about to start, as its call gave it. */
export interface StartedProcess {
  /** The tool: terminal_execute, or one whose command only the tool knows. */
  readonly tool: string;
  /** The command line or script; the name of the tool where only the tool knows it. */
  readonly command: string;
  readonly input: Readonly<Record<string, unknown>>;
}

/** In place of a process: a command line that answers, or why its call fails; neither: it is run. */
export interface DoubleAnswer {
  readonly command?: string;
  readonly refused?: string;
}

export type ToDaemon = { readonly advanceMs: number } | { readonly answered: number; readonly answer: DoubleAnswer };

export type FromDaemon =
  | (Started & { readonly kind: 'started' })
  | { readonly kind: 'process'; readonly id: number; readonly process: StartedProcess }
  /** The time of the daemon's clock after it was moved, in milliseconds since the epoch. */
  | { readonly kind: 'advanced'; readonly nowMs: number };
