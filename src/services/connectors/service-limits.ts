/** What services say about how often they may be asked, and how long one that fails is left alone. */
import { ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import type { ServiceAnswer } from './answer.ts';

export interface ServiceState {
  /**
   * `paused`: it failed too often, and is not asked for a while. `limited`: it said that it was asked too often.
   * `refused`: it works, but not with the secret.
   */
  readonly state: 'ok' | 'failing' | 'limited' | 'paused' | 'refused';
  readonly failures: number;
  /** Milliseconds until it is asked again. */
  readonly retryAfterMs?: number;
  /** Why the last request failed. */
  readonly problem?: string;
  /** When it began to fail, ISO 8601. */
  readonly since?: string;
}

/** One service: the limits it names, and its failures in a row. */
export class ServiceLimits {
  readonly #limits: Limits;
  readonly #powers: Pick<Powers, 'now' | 'monotonicMs'>;
  #limitedUntilMs = 0;
  #pausedUntilMs = 0;
  #failures = 0;
  /** The problem, and when it began, in milliseconds since the epoch. */
  #trouble: { readonly problem: string; readonly sinceMs: number } | undefined;
  /** Whether one request is trying a service that was paused. */
  #isTrying = false;

  constructor(limits: Limits, powers: Pick<Powers, 'now' | 'monotonicMs'>) {
    this.#limits = limits;
    this.#powers = powers;
  }

  get state(): ServiceState {
    const nowMs = this.#powers.monotonicMs();
    const retryAfterMs = Math.ceil(Math.max(this.#limitedUntilMs, this.#pausedUntilMs) - nowMs);
    const trouble = this.#trouble && {
      problem: this.#trouble.problem,
      since: new Date(this.#trouble.sinceMs).toISOString(),
    };
    const about = { failures: this.#failures, ...trouble };
    if (this.#pausedUntilMs > nowMs) return { state: 'paused', retryAfterMs, ...about };
    if (this.#limitedUntilMs > nowMs) return { state: 'limited', retryAfterMs, ...about };
    if (this.#failures > 0) return { state: 'failing', ...about };
    return { state: trouble ? 'refused' : 'ok', ...about };
  }

  /** Throws RATE_LIMITED or UPSTREAM_FAILED if the service should not be asked now. */
  assertMayAsk(host: string): void {
    const { state, retryAfterMs, failures, problem } = this.state;
    const details = { retryAfterMs };
    if (state === 'limited')
      throw new ToolError('RATE_LIMITED', `${host} takes no more requests for ${retryAfterMs} ms`, { details });
    if (state === 'paused')
      throw new ToolError(
        'UPSTREAM_FAILED',
        `${host} failed ${failures} times in a row and is not asked for ${retryAfterMs} ms: ${problem}`,
        { details },
      );
    if (failures < this.#limits.connectorFailuresMax) return;
    // The pause is over: one request tries whether the service works again.
    if (this.#isTrying)
      throw new ToolError('UPSTREAM_FAILED', `${host} failed ${failures} times in a row and is tried by another call`, {
        details,
      });
    this.#isTrying = true;
  }

  /** Learns from an answer. */
  answered({ status, headers }: Pick<ServiceAnswer, 'status' | 'headers'>): void {
    if (status >= 500) return this.failed(`it answered ${status}`);
    this.#isTrying = false;
    this.#failures = 0;
    this.#pausedUntilMs = 0;
    if (status === 401) this.#note('it refused the secret');
    else this.#trouble = undefined;
    const waitMs = status === 429 ? (this.retryAfterMs({ headers }) ?? 1000) : this.#exhaustedMs(headers);
    if (waitMs !== undefined) this.#limitedUntilMs = this.#powers.monotonicMs() + waitMs;
  }

  /** Learns that there was no good answer. */
  failed(problem: string): void {
    const { connectorFailuresMax: max, connectorPauseMs, connectorPauseMsMax } = this.#limits;
    this.#isTrying = false;
    this.#failures += 1;
    this.#note(problem);
    if (this.#failures < max) return;
    const pauseMs = Math.min(connectorPauseMs * 2 ** (this.#failures - max), connectorPauseMsMax);
    this.#pausedUntilMs = this.#powers.monotonicMs() + pauseMs;
  }

  #note(problem: string): void {
    this.#trouble = { problem, sinceMs: this.#trouble?.sinceMs ?? this.#powers.now() };
  }

  /** A request ended for a reason that says nothing about the service. */
  released(): void {
    this.#isTrying = false;
  }

  /** The wait that an answer asks for, in seconds or until a date; undefined if it asks for none. */
  retryAfterMs({ headers }: Pick<ServiceAnswer, 'headers'>): number | undefined {
    const { 'retry-after': given } = headers;
    if (given === undefined) return undefined;
    const seconds = Number(given);
    const waitMs = Number.isFinite(seconds) ? seconds * 1000 : Date.parse(given) - this.#powers.now();
    return Number.isFinite(waitMs) ? Math.max(0, Math.ceil(waitMs)) : undefined;
  }

  /** Milliseconds until the service takes requests again, if the answer says that none are left. */
  #exhaustedMs(headers: Readonly<Record<string, string>>): number | undefined {
    const of = (name: string) => headers[`x-ratelimit-${name}`] ?? headers[`ratelimit-${name}`];
    if (of('remaining') !== '0') return undefined;
    const reset = Number(of('reset'));
    if (!Number.isFinite(reset) || reset <= 0) return undefined;
    // Some services give the time in seconds since 1970, others the seconds from now.
    const waitMs = reset > EPOCH_SECONDS ? reset * 1000 - this.#powers.now() : reset * 1000;
    return Math.min(Math.max(0, waitMs), WAIT_MS_MAX);
  }
}

/** A number of seconds above this is a time since 1970: seconds from now would be more than 30 years. */
const EPOCH_SECONDS = 1_000_000_000;
/** A service may name any time; after an hour it is asked again. */
const WAIT_MS_MAX = 3_600_000;
