import type * as z from 'zod';
import type { Read } from '../base/result-shapes.ts';
import type { toolInfo } from '../wire/protocol/shapes.ts';

/** One thing that a tool can do: a word for programs to match, and a sentence for people. */
export type Capability = Readonly<z.output<typeof toolInfo>['capabilities'][number]>;

export const CATEGORIES = [
  ...(['filesystem', 'code_analysis', 'validation', 'search', 'api', 'database'] as const),
  ...(['service', 'deployment', 'development', 'custom'] as const),
];
export type Category = (typeof CATEGORIES)[number];

type Shape = Omit<(typeof toolInfo)['shape'], 'inputSchema' | 'outputSchema'>;
export type ToolInfo = Read<z.output<z.ZodObject<Shape>>> & {
  readonly inputSchema: object;
  readonly outputSchema?: object;
};
/** What a search and a description say of a tool. */
export type ListedTool = Pick<
  ToolInfo,
  'name' | 'title' | 'description' | 'category' | 'inputSchema' | 'outputSchema' | 'capabilities'
>;
