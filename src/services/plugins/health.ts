/** Health checks of plugins: a function of the module that an operator's `status --health` has run, which can call no tool. */
import { ToolError, toToolError } from '../../base/errors.ts';
import type { PluginCode } from '../../base/plugin-code.ts';
import { abortAfter } from '../../base/powers.ts';
import { isolateProgram } from '../../base/runtime.ts';
import { isRecord } from '../../base/text/values.ts';
import { Isolates } from '../../hosts/isolates.ts';
import type { DaemonParts } from '../capability.ts';
import type { ManifestTool } from './manifest.ts';
import type { Plugin } from './package.ts';

const MEMORY_MB = 64;
const RESULT_BYTES = 16 * 1024;
const MESSAGE_CHARS = 200;
/** Plugins with what is wrong with them, by name, as of the last check; an empty list for one that works. */
export class PluginHealth {
  readonly #daemon: DaemonParts;
  #known: ReadonlyMap<string, readonly string[]> = new Map();

  constructor(daemon: DaemonParts) {
    this.#daemon = daemon;
  }

  /** Undefined for a plugin that was not checked, or has no check. */
  of = (name: string): readonly string[] | undefined => this.#known.get(name);

  /** Runs the checks of all plugins, one after the other, in processes that end with them. Never rejects. */
  async check(plugins: readonly Plugin[]): Promise<void> {
    await using isolates = new Isolates({ ...this.#daemon, program: isolateProgram }, this.#daemon.powers);
    const known = new Map<string, readonly string[]>();
    for (const plugin of plugins) {
      const checked = plugin.manifest.tools.filter((it) => it.healthCheck !== undefined);
      const problems: string[] = [];
      for (const tool of checked) problems.push(...(await this.#problemsOf(plugin, tool, isolates)));
      if (checked.length > 0) known.set(plugin.manifest.name, problems);
    }
    this.#known = known;
  }

  async #problemsOf(plugin: Plugin, tool: ManifestTool, isolates: Isolates): Promise<string[]> {
    const { limits, powers, stateDir } = this.#daemon;
    const late = new ToolError('TIMEOUT', `no answer within ${limits.healthCheckMs} ms`);
    using inTime = abortAfter(limits.healthCheckMs, powers, late);
    const { signal } = inTime;
    try {
      const isolate = { tools: [], memoryMb: MEMORY_MB, cpuMs: limits.healthCheckMs, resultBytes: RESULT_BYTES };
      const job = { tool: tool.name, input: {}, isolate, plugin: codeOf(plugin, tool) };
      const owner = { session: 'health', workspace: stateDir };
      const { result } = await isolates.run(owner, job, { signal });
      const failure = signal.aborted ? late.message : result.ok ? undefined : result.error.message;
      const said = failure ?? (result.ok ? problemIn(result.data) : undefined);
      return said === undefined ? [] : [`${tool.name}: ${said.slice(0, MESSAGE_CHARS)}`];
    } catch (error) {
      const { message } = toToolError(signal.aborted ? signal.reason : error);
      return [`${tool.name}: ${message.slice(0, MESSAGE_CHARS)}`];
    }
  }
}

/** A check says `{ ok, message }`; one that gives anything else, and does not throw, says that all is well. */
function problemIn(data: unknown): string | undefined {
  if (!isRecord(data) || data.ok !== false) return undefined;
  return typeof data.message === 'string' ? data.message : 'it says that it does not work';
}

const ANYTHING = { type: 'object', properties: {}, additionalProperties: true };

const codeOf = ({ files }: Plugin, { module, healthCheck }: ManifestTool): PluginCode => ({
  isolation: 'isolate',
  modules: Object.fromEntries(Object.entries(files).filter(([path]) => /\.m?js$/.test(path))),
  module,
  export: healthCheck as string,
  input: ANYTHING,
  output: {},
});
