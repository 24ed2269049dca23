/** A part of a tool's context that a capability brings: its tools ask for it by `ctx.use(part)`; workers/thread-parts.ts makes it. */
export interface ContextPart<T> {
  readonly name: string;
  /** Never present: it holds the type. */
  readonly made?: T;
}
