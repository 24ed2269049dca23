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

export interface ToDaemon {
  readonly advanceMs: number;
}

export type FromDaemon =
  | (Started & { readonly kind: 'started' })
  /** The time of the daemon's clock after it was moved, in milliseconds since the epoch. */
  | { readonly kind: 'advanced'; readonly nowMs: number };
