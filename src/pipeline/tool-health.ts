/** Whether tools could work in a workspace: learned from checks in the hosts of their calls, and from the calls themselves. */
import { ToolError } from '../base/errors.ts';
import type { Limits } from '../base/limits.ts';
import { abortAfter, type Powers } from '../base/powers.ts';
import type { HostKey, Hosts, PathView } from '../hosts/hosts.ts';
import type { JobResult } from '../hosts/job.ts';
import type { RunRequest } from '../hosts/runs.ts';
import type { Health } from '../tools/lifecycle.ts';
import { hostTierOf, type Tool } from '../tools/tool.ts';
import { commandBoundsOf, heapOf } from './execute/bounds.ts';
import type { Call } from './stage.ts';

export type HealthAsker = Pick<Call, 'policy' | 'principal' | 'sessionId' | 'workspace' | 'root'>;

export interface HealthParts {
  readonly hosts: Hosts;
  readonly limits: Limits;
  readonly powers: Powers;
  viewOf(of: HealthAsker): PathView;
}

interface KnownHealth {
  readonly atMs: number;
  readonly health: Health;
}

interface HealthCheck {
  readonly atMs: number;
  readonly all: Promise<Map<string, Health>>;
}

/** The most characters kept of a message; a host may send any length. */
const MESSAGE_CHARS_MAX = 500;

export class ToolHealth {
  readonly #parts: HealthParts;
  /** Maps a workspace to what is known of each tool by name. */
  readonly #known = new Map<string, Map<string, KnownHealth>>();
  readonly #checked = new Map<string, HealthCheck>();

  constructor(parts: HealthParts) {
    this.#parts = parts;
  }

  /** Why a tool could not work in a workspace, if that was learned less than `healthToldMs` ago. */
  badHealthOf(tool: string, workspace: string): Health | undefined {
    const { powers, limits } = this.#parts;
    const known = this.#known.get(workspace)?.get(tool);
    const isTold = known && !known.health.ok && powers.monotonicMs() - known.atMs < limits.healthToldMs;
    return isTold ? known.health : undefined;
  }

  /** Learns from the result of a call: the tool was not ready, or it works. */
  note(tool: Tool, workspace: string, result: JobResult): void {
    if (result.ok) this.#known.get(workspace)?.delete(tool.name);
    else if (result.error.details?.reason === 'not-ready')
      this.#know(tool.name, workspace, { ok: false, message: result.error.message });
  }

  /** Asks each tool that can be checked whether it could work; leaves out those that can't be asked now. */
  check(tools: readonly Tool[], asker: HealthAsker): Promise<Map<string, Health>> {
    const { powers, limits } = this.#parts;
    const key = `${asker.workspace}\0${asker.policy.version}`;
    const last = this.#checked.get(key);
    if (last && powers.monotonicMs() - last.atMs < limits.healthKeptMs) return last.all;
    const all = this.#checkNow(tools, asker);
    makeRoom(this.#checked, limits.healthWorkspacesMax);
    this.#checked.set(key, { atMs: powers.monotonicMs(), all });
    return all;
  }

  async #checkNow(tools: readonly Tool[], asker: HealthAsker): Promise<Map<string, Health>> {
    const byTier = Map.groupBy(
      tools.filter((it) => it.healthCheck),
      (it) => hostTierOf(it, it.tier),
    );
    const answers = await Promise.all([...byTier].map(([tier, its]) => this.#ask(tier, its, asker)));
    const all = new Map(answers.flat().sort(([a], [b]) => (a < b ? -1 : 1)));
    for (const [tool, health] of all) this.#know(tool, asker.workspace, health);
    return all;
  }

  async #ask(tier: HostKey['tier'], tools: readonly Tool[], asker: HealthAsker): Promise<[string, Health][]> {
    const { hosts, limits, powers, viewOf } = this.#parts;
    const { policy, workspace, principal } = asker;
    const names = tools.map((it) => it.name);
    const isCommand = tier === 'execute';
    const request: RunRequest = {
      health: names,
      readOnly: true,
      ...(isCommand && { bounds: commandBoundsOf(policy, limits) }),
    };
    const hostKey = { tier, workspace, view: viewOf(asker), principal, ...heapOf(policy, tier) };
    const late = new ToolError('TIMEOUT', `its health check did not finish within ${limits.healthCheckMs} ms`);
    using inTime = abortAfter(limits.healthCheckMs, powers, late);
    try {
      const { result } = await hosts.run(hostKey, request, { signal: inTime.signal });
      if (!result.ok) throw inTime.signal.aborted ? late : ToolError.fromWire(result.error);
      return names.map((it) => [it, healthIn(result.data, it)]);
    } catch (error) {
      if (!(error instanceof ToolError)) throw error;
      // These errors are about the daemon at this moment, not about the tools.
      if (error.code === 'QUEUE_FULL' || error.code === 'SHUTTING_DOWN') return [];
      return names.map((it) => [it, { ok: false, message: error.message }]);
    }
  }

  #know(tool: string, workspace: string, health: Health): void {
    const { powers, limits } = this.#parts;
    const known = this.#known.get(workspace) ?? new Map<string, KnownHealth>();
    if (!this.#known.has(workspace)) makeRoom(this.#known, limits.healthWorkspacesMax);
    this.#known.set(workspace, known);
    known.set(tool, { atMs: powers.monotonicMs(), health });
  }
}

/** Removes the oldest entry of a full map. */
function makeRoom(map: Map<string, unknown>, max: number): void {
  const oldest = map.keys().next();
  if (map.size >= max && !oldest.done) map.delete(oldest.value);
}

/** Checks the answer: a compromised host could send anything. */
function healthIn(data: unknown, tool: string): Health {
  const it = (data as Record<string, { ok?: unknown; message?: unknown }> | null)?.[tool];
  if (it?.ok === true) return { ok: true };
  return {
    ok: false,
    message: typeof it?.message === 'string' ? it.message.slice(0, MESSAGE_CHARS_MAX) : 'no reason given',
  };
}
