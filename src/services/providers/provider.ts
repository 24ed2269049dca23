/**
 * One external provider: kept running or started on demand, restarted with growing delays when it ends, its tools compared with the
 * accepted ones.
 */

import { ToolError } from '../../base/errors.ts';
import { abortAfter, fraction, type Powers, type Timer } from '../../base/powers.ts';
import { providedData } from '../../base/provided-data.ts';
import type { Host, JobEnd } from '../../hosts/host.ts';
import type { HostMasks } from '../../hosts/host-masks.ts';
import type { PathView } from '../../hosts/hosts.ts';
import type { JobResult } from '../../hosts/job.ts';
import type { RunOptions, RunResult } from '../../hosts/runs.ts';
import { unlessAborted } from '../../hosts/shutdown.ts';
import { NO_MASKS } from '../../sandbox/masks.ts';
import type { Upstream } from '../../tools/runs.ts';
import { backoffMs } from './backoff.ts';
import type { ListedTools } from './messages.ts';
import { type ProcessParts, runProvider, workspaceOf } from './process.ts';
import type { UpstreamCaller } from './run-call.ts';
import { ServerChecks } from './server-checks.ts';
import type { ProviderSettings } from './settings.ts';

/** `idle`: ended for lack of calls, restarted by the next call. `waiting`: ended, restarted after a delay. */
export type ProviderState = 'starting' | 'ready' | 'idle' | 'waiting' | 'stopped';

export interface ProviderOptions {
  readonly settings: ProviderSettings;
  readonly masks: HostMasks;
  /** The daemon's policy on paths for programs of the provider's workspace. */
  viewNow(): PathView;
  /** Called each time the server lists its tools. */
  onListed(listed: ListedTools): void;
  /** Throws TOOL_DISABLED if the tool is not what the server offers now, or was not accepted. */
  assertAccepted(upstream: Pick<Upstream, 'tool' | 'digest'>): void;
}

export class Provider {
  readonly #options: ProviderOptions;
  readonly #parts: ProcessParts;
  readonly #powers: Powers;
  readonly #checks: ServerChecks;
  #state: ProviderState = 'starting';
  #host: Host | undefined;
  /** Settles when the state is no longer `starting`. */
  #settled = Promise.withResolvers<void>();
  /** Ends the wait before the next start. */
  #wake: () => void = () => {};
  /** Aborts the current run. */
  #run = new AbortController();
  /** When it entered its state, in milliseconds since the epoch. */
  sinceMs: number;
  /** Whether the host's jobs hold a ping of ours. */
  #isPinging = false;
  #attempts = 0;
  #retryAtMs = 0;
  #idle: Timer | undefined;
  /** Fingerprint of the masks that its sandbox was created with. */
  #fingerprint = '';
  #viewKey = '';
  /** Whether a restart was requested, so that there is no delay before it. */
  #isAsked = false;
  readonly #life: Promise<void>;
  restarts = 0;
  /** Why the last run ended. */
  reason = '';

  /** Starts the provider without waiting for it. */
  constructor(options: ProviderOptions, parts: ProcessParts) {
    this.#options = options;
    this.#parts = parts;
    this.#powers = parts.powers;
    this.sinceMs = parts.powers.now();
    this.#checks = new ServerChecks({
      ...parts,
      isBusy: () => this.#calls > 0,
      ping: () => this.#ping(),
      onDead: (reason) => this.#run.abort(new Error(reason)),
    });
    this.#life = this.#live();
  }

  get settings(): ProviderSettings {
    return this.#options.settings;
  }

  get state(): ProviderState {
    // The process has ended, but `#live` has not handled it yet.
    return this.#state === 'ready' && !this.host ? 'waiting' : this.#state;
  }

  get host(): Host | undefined {
    return this.#host?.alive ? this.#host : undefined;
  }

  /** Runs a call. Throws what `Upstreams.run` throws. */
  async run(upstream: Upstream, input: unknown, caller: UpstreamCaller, options: RunOptions): Promise<RunResult> {
    this.#assertSees(caller);
    const host = await this.#ready(options.signal);
    await options.beforeStart?.();
    // Nothing is awaited between this check and the call, so the call meets what was checked.
    this.#options.assertAccepted(upstream);
    if (!host.alive || this.#host !== host) throw this.#unavailable();
    this.#idle?.cancel();
    const running = host.run({ tool: upstream.tool, input }, options);
    options.onStarted?.();
    const end = await running;
    this.#reapLater();
    this.#checks.used();
    return { pid: host.pid, result: this.#resultOf(end) };
  }

  /** Stops the provider for good. */
  async stop(): Promise<void> {
    this.#enter('stopped');
    this.#idle?.cancel();
    this.#wake();
    this.#settled.resolve();
    this.#run.abort(new Error('the daemon ends'));
    await this.#life;
  }

  /** Ends the current run and restarts at once. */
  restart(reason: string): void {
    this.#begin();
    this.#run.abort(new Error(reason));
  }

  async #live(): Promise<void> {
    while (this.#state !== 'stopped') {
      const startedMs = this.#powers.monotonicMs();
      const run = new AbortController();
      this.#run = run;
      this.#isAsked = false;
      try {
        this.reason = await this.#runOnce(run.signal);
      } catch (error) {
        this.reason = (error as Error).message;
      }
      this.#host = undefined;
      this.#idle?.cancel();
      this.#checks.stop();
      if (this.#isInState('stopped')) return;
      const isSteady = this.#powers.monotonicMs() - startedMs > this.#parts.limits.providerSteadyMs;
      if (this.#isInState('ready') && isSteady) this.#attempts = 0;
      if (!this.#isAsked) await (this.#isInState('idle') ? this.#called() : this.#backOff());
      if (this.#isInState('stopped')) return;
      this.restarts += 1;
      if (!this.#isInState('starting')) this.#begin();
    }
  }

  /** Enters the state `starting`; calls wait for the provider from now on. */
  #begin(): void {
    if (this.#isInState('stopped')) return;
    this.#isAsked = true;
    if (!this.#isInState('starting')) this.#settled = Promise.withResolvers<void>();
    this.#enter('starting');
    this.#wake();
  }

  #enter(state: ProviderState): void {
    if (this.#state !== state) this.sinceMs = this.#powers.now();
    this.#state = state;
  }

  /** Calls under way. */
  get #calls(): number {
    return (this.host?.jobs ?? 0) - (this.#isPinging ? 1 : 0);
  }

  /** Compares the state; keeps the compiler from narrowing it across an await. */
  #isInState(state: ProviderState): boolean {
    return this.#state === state;
  }

  async #runOnce(signal: AbortSignal): Promise<string> {
    const { settings, onListed } = this.#options;
    const held = await this.#masks();
    this.#fingerprint = held.fingerprint;
    const onTools = (listed: ListedTools, host: Host) => {
      if (signal.aborted || this.#isInState('stopped')) return;
      onListed(listed);
      if (this.#isInState('ready')) return;
      this.#powers.log.info({ provider: settings.name, pid: host.pid, tools: listed.tools.length }, 'provider ready');
      this.#host = host;
      this.#enter('ready');
      this.#settled.resolve();
      this.#reapLater();
    };
    return runProvider({ settings, masks: held.masks, signal, onTools }, this.#parts);
  }

  async #masks() {
    const workspace = workspaceOf(this.settings);
    const view = this.#options.viewNow();
    this.#viewKey = view.key;
    return workspace === undefined
      ? { masks: NO_MASKS, fingerprint: '' }
      : this.#options.masks.ofProgram({ workspace, view });
  }

  async #backOff(): Promise<void> {
    this.#attempts += 1;
    const random = fraction(this.#powers);
    const waitMs = backoffMs(this.#attempts, this.#parts.limits, random);
    const { name } = this.settings;
    this.#powers.log.warn({ provider: name, reason: this.reason, waitMs }, 'provider ended; restarting it');
    this.#retryAtMs = this.#powers.monotonicMs() + waitMs;
    this.#enter('waiting');
    this.#settled.resolve();
    await new Promise<void>((resolve) => {
      const timer = this.#powers.after(waitMs, resolve);
      this.#wake = () => {
        timer.cancel();
        resolve();
      };
    });
  }

  #called(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  /** A host that is running with up-to-date masks. Throws PROVIDER_UNAVAILABLE, the signal's reason. */
  async #ready(signal: AbortSignal): Promise<Host> {
    if (this.#isInState('ready') && !(await this.#isUpToDate())) {
      if (this.#calls > 0) throw this.#unavailable('is started anew: files that it is kept from changed');
      this.restart('files that it is kept from changed');
    }
    if (this.#isInState('idle')) this.#begin();
    await unlessAborted(this.#settled.promise, signal);
    const { host } = this;
    if (!this.#isInState('ready') || !host) throw this.#unavailable();
    return host;
  }

  async #isUpToDate(): Promise<boolean> {
    if (workspaceOf(this.settings) === undefined) return true;
    const key = this.#viewKey;
    const { fingerprint } = await this.#masks();
    return fingerprint === this.#fingerprint && this.#viewKey === key;
  }

  /** Refuses a provider of another workspace, or one that sees more than its caller may. */
  #assertSees({ workspace, view }: UpstreamCaller): void {
    const own = workspaceOf(this.settings);
    if (own === undefined || (own === workspace && view.key === this.#options.viewNow().key)) return;
    const { name } = this.settings;
    throw new ToolError(
      'ACCESS_DENIED',
      `provider ${name} works on ${own === workspace ? 'files of' : 'a folder besides'} this workspace that this session may not see`,
      {
        suggestion: 'Only sessions of that workspace with just the policy of the daemon may use this provider.',
      },
    );
  }

  /** Rejects with the reason if the server does not answer. */
  async #ping(): Promise<void> {
    const { limits, powers } = this.#parts;
    const { host } = this;
    if (!host) return;
    using late = abortAfter(limits.healthCheckMs, powers);
    this.#isPinging = true;
    try {
      const end = await host.run({ health: [] }, { signal: late.signal });
      if (late.signal.aborted) throw new Error(`no answer within ${limits.healthCheckMs} ms`);
      // A process that ended is started anew already.
      if (!('crashed' in end) && !end.result.ok) throw new Error(end.result.error.message);
    } finally {
      this.#isPinging = false;
    }
  }

  #reapLater(): void {
    const idleMs = this.settings.kind === 'stdio' ? this.settings.idleMs : undefined;
    if (idleMs === undefined || !this.host || this.#calls > 0) return;
    this.#idle?.cancel();
    this.#idle = this.#powers.after(idleMs, () => {
      if (!this.#isInState('ready') || this.#calls > 0) return;
      this.#enter('idle');
      this.#run.abort(new Error('it was idle'));
    });
  }

  #unavailable(
    why = this.#isInState('stopped') ? 'is stopped' : `is down: ${this.reason || 'it has not started yet'}`,
  ): ToolError {
    const retryAfterMs = Math.max(0, Math.round(this.#retryAtMs - this.#powers.monotonicMs()));
    return new ToolError('PROVIDER_UNAVAILABLE', `provider ${this.settings.name} ${why}`, {
      suggestion: 'An operator can see more with `ringfence providers list`.',
      details: { retryAfterMs },
    });
  }

  /** The result of a job. A compromised host can send anything, so errors are limited to those that a provider may report. */
  #resultOf(end: JobEnd): JobResult {
    if ('crashed' in end) throw this.#unavailable('ended under the call; whether it was done is not known');
    const { result } = end;
    if (!result.ok) {
      const { code, message, details } = result.error;
      const shownCode = CODES.has(code) ? (code as 'UPSTREAM_FAILED') : 'UPSTREAM_FAILED';
      const error = new ToolError(shownCode, message.slice(0, MESSAGE_CHARS_MAX), {
        ...(code === 'OUTPUT_LIMIT' && details && { details }),
      });
      return { ...result, error: error.toWire() };
    }
    const data = providedData.safeParse(result.data);
    if (data.success) return { ok: true, data: data.data, usage: result.usage };
    throw new ToolError('UPSTREAM_FAILED', `provider ${this.settings.name} returned no valid result`);
  }
}

const CODES: ReadonlySet<string> = new Set(['UPSTREAM_FAILED', 'PROVIDER_UNAVAILABLE', 'OUTPUT_LIMIT', 'CANCELLED']);
const MESSAGE_CHARS_MAX = 8192;
