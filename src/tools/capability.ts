/** One thing that a tool can do. */
export interface Capability {
  /** One word for programs to match. */
  readonly action: string;
  /** One sentence for people. */
  readonly description: string;
}

export const CATEGORIES = [
  ...(['filesystem', 'code_analysis', 'validation', 'search', 'api', 'database'] as const),
  ...(['service', 'deployment', 'development', 'custom'] as const),
];
export type Category = (typeof CATEGORIES)[number];

/** What a search and a description say of a tool. */
export interface ListedTool {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly category: string;
  readonly inputSchema: object;
  readonly outputSchema?: object;
  readonly capabilities: readonly Capability[];
}
