/** One thing that a tool can do. */
export interface Capability {
  /** One word for programs to match. */
  readonly action: string;
  /** One sentence for people. */
  readonly description: string;
}
