/** Of a call of a plugin's tool: what its host gets, and how much it may take. */
import type { IsolateBounds, LogLine } from '../hosts/job.ts';
import type { JobRequest } from '../hosts/host.ts';
import type { Limits } from '../limits.ts';
import type { PluginSpec } from '../tools/tool.ts';
import { leastOf } from './bounds.ts';
import { type Call, checkedOf } from './stage.ts';

/** The job of a plugin host. Of the tools that the plugin may call those that there are: never another plugin's, or its own. */
export function pluginJobOf(
  call: Call,
  spec: PluginSpec,
  limits: Limits,
): JobRequest & { readonly isolate: IsolateBounds } {
  const { tool, tier, input } = checkedOf(call);
  const of = (key: 'cpuMs' | 'memoryMb' | 'outputBytes', most: number) => leastOf(call.policy, { tier, tool, key, most });
  const isolate: IsolateBounds = {
    tools: spec.tools.filter((name) => call.toolset.get(name)?.tool.isolated === undefined && call.toolset.has(name)),
    memoryMb: of('memoryMb', Math.min(spec.memoryMb, limits.codeMemoryMb)),
    cpuMs: of('cpuMs', Math.min(spec.cpuMs, limits.codeCpuMs)),
    resultBytes: of('outputBytes', Math.min(spec.outputBytes, limits.codeResultBytes)),
  };
  return { tool: tool.name, input, isolate, plugin: spec.code };
}
