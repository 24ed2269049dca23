/** One thing that a tool can do. */
export interface Capability {
  /** One word, as a program would match it. */
  readonly action: string;
  /** One sentence for people. */
  readonly description: string;
}
