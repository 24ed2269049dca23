/** Where the calls of a provider's tool go. */
export interface Upstream {
  readonly provider: string;
  /** As the provider calls it. */
  readonly tool: string;
  /** Of the definition that was accepted: with another one it is another tool. */
  readonly digest: string;
  /** Calls that the provider is given at once. */
  readonly places: number;
}
