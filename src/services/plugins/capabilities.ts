/** Capabilities of plugins: the built-in tools that plugin code may call, by the tier of the plugin's tool. */
import type { Tier } from '../../base/call.ts';

const READING = [
  ...['file_read', 'file_read_many', 'file_list', 'file_glob', 'file_grep', 'file_search', 'data_validate'],
  ...['workspace_structure', 'workspace_search_symbol', 'workspace_find_references'],
];
const WRITING = [...['file_write', 'file_edit', 'file_multi_edit', 'file_copy', 'file_rename', 'file_delete']];

interface Capability {
  /** Built-in tools that the capability allows; the policy judges each call as if it were made alone. */
  readonly tools: readonly string[];
  /** Tiers of plugin tools that may have the capability. */
  readonly tiers: readonly Tier[];
}

export const CAPABILITIES = {
  'fs.read': { tools: READING, tiers: ['read_only', 'write', 'execute', 'external_api'] },
  'fs.write': { tools: WRITING, tiers: ['write', 'execute', 'external_api'] },
  command: { tools: ['terminal_execute', 'terminal_script'], tiers: ['execute'] },
  model: { tools: ['task_delegate'], tiers: ['external_api'] },
  http: { tools: ['http_request'], tiers: ['external_api'] },
} as const satisfies Record<string, Capability>;

export type CapabilityName = keyof typeof CAPABILITIES;
export const CAPABILITY_NAMES = Object.keys(CAPABILITIES) as [CapabilityName, ...CapabilityName[]];

export const mayHave = (tier: Tier, name: CapabilityName): boolean =>
  (CAPABILITIES[name].tiers as readonly Tier[]).includes(tier);

/** The built-in tools that the capabilities allow, each once. */
export const toolsOfCapabilities = (names: readonly CapabilityName[]): string[] => [
  ...new Set(names.flatMap((it) => CAPABILITIES[it].tools)),
];
