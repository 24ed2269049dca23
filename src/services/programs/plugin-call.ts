/** Makes the job for a call of a plugin's tool, with its bounds. */

import type { Limits } from '../../base/limits.ts';
import { TIERS } from '../../base/result-shapes.ts';
import type { ProgramRequest } from '../../hosts/isolates.ts';
import type { IsolateBounds } from '../../hosts/job.ts';
import { leastOf } from '../../pipeline/execute/bounds.ts';
import type { ClearedCall } from '../../pipeline/stage.ts';
import { type PluginSpec, runsBy } from '../../tools/runs.ts';
import type { Tool } from '../../tools/tool.ts';

const mayCall = (by: Tool, tool: Tool | undefined): boolean =>
  tool !== undefined && !runsBy(tool, 'isolates') && TIERS.indexOf(tool.tier) <= TIERS.indexOf(by.tier);

/** The job for a plugin host. Tools of a higher tier, and those that run programs themselves, can not be called. */
export function pluginJobOf(call: ClearedCall, spec: PluginSpec, limits: Limits): ProgramRequest {
  const { tool, tier, input } = call.checked;
  const of = (key: 'cpuMs' | 'memoryMb' | 'outputBytes', most: number) =>
    leastOf(call.policy, { tier, tool, key, most });
  const isolate: IsolateBounds = {
    tools: spec.tools.filter((name) => mayCall(tool, call.toolset.get(name)?.tool)),
    memoryMb: of('memoryMb', Math.min(spec.memoryMb, limits.codeMemoryMb)),
    cpuMs: of('cpuMs', Math.min(spec.cpuMs, limits.codeCpuMs)),
    resultBytes: of('outputBytes', Math.min(spec.outputBytes, limits.codeResultBytes)),
  };
  return { tool: tool.name, input, isolate, plugin: spec.code };
}
