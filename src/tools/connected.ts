/** The operation of a connector that a call of a tool runs. */
export interface Connected {
  readonly connector: string;
  readonly operation: string;
  /** Hash of the connector's files: another connector's operation is another tool. */
  readonly digest: string;
}
