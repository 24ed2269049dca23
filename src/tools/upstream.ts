/** The provider that gets the calls of a tool. */
export interface Upstream {
  readonly provider: string;
  /** The provider's own name of the tool. */
  readonly tool: string;
  /** Digest of the accepted definition: another definition is another tool. */
  readonly digest: string;
  /** The most calls that the provider gets at once. */
  readonly concurrency: number;
}
