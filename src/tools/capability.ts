import type * as z from 'zod';
import type { Decision, Tier } from '../base/call.ts';
import type { toolInfo } from '../wire/protocol/shapes.ts';
import type { ToolAuth, ToolCost } from './connected.ts';
import type { Health } from './lifecycle.ts';
import type { Deprecation } from './versions.ts';

/** One thing that a tool can do: a word for programs to match, and a sentence for people. */
export type Capability = Readonly<z.output<typeof toolInfo>['capabilities'][number]>;

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

export interface ToolInfo {
  name: string;
  title: string;
  description: string;
  category: string;
  tier: Tier;
  version: string;
  inputSchema: object;
  outputSchema?: object;
  annotations: { readOnlyHint: boolean; destructiveHint: boolean; idempotentHint: boolean; openWorldHint: boolean };
  aliases: string[];
  capabilities: readonly Capability[];
  /** Tools that usually run before this one. */
  dependencies: readonly string[];
  /** URL of the tool's reference; absent for tools of plugins and providers. */
  documentation?: string;
  /** The same, with the tools before them in turn, as far as they are built in. */
  allDependencies: readonly string[];
  /** Whether a person is asked about calls, as far as that is known without their input. */
  requiresConfirmation: boolean;
  /** Whether results may be answered from the cache. */
  cacheable: boolean;
  /** Further attempts after the answer of a busy server, if the caller says no number. */
  retries?: number;
  /** Usual time of a call in milliseconds: half of the last day's took no longer. Absent unless asked for, or without a past. */
  estimatedTime?: number;
  decision: Decision;
  /** For tools of services. */
  auth?: ToolAuth;
  cost?: ToolCost;
  /** Major versions that can be called as `name@major`, the newest first; the bare name is the newest. */
  majors?: readonly number[];
  deprecated?: Deprecation;
  /** Why calls would fail on this machine; absent if no reason is known. */
  health?: Health;
}
