/**
 * Asks services by their health paths whether they work: while calls use them, and one that fails until it works again.
 * An idle daemon asks nothing.
 */
import { ToolError } from '../../base/errors.ts';
import type { Limits } from '../../base/limits.ts';
import { fraction, type Powers, type Timer } from '../../base/powers.ts';
import type { ConnectedCall } from './run-call.ts';
import type { ServiceClient } from './service-client.ts';

export type ServiceReach = (
  service: ServiceClient,
  work: (call: Pick<ConnectedCall, 'fetch'>) => Promise<void>,
) => Promise<void>;

export interface HealthChecksParts {
  readonly limits: Limits;
  readonly powers: Powers;
  /** Lets `work` make requests to the service, unless the policy denies it. Throws ToolError. */
  readonly reach: ServiceReach;
}

interface CheckedService {
  usedMs: number;
  checkedMs: number;
  timer?: Timer | undefined;
  /** The check that goes on. */
  checking?: Promise<void> | undefined;
}

/** Part of an interval by which it is longer or shorter at random, so that the checks of many daemons spread. */
const JITTER = 0.25;

export class HealthChecks implements Disposable {
  readonly #parts: HealthChecksParts;
  readonly #services = new Map<ServiceClient, CheckedService>();
  #isDisposed = false;

  constructor(parts: HealthChecksParts) {
    this.#parts = parts;
  }

  /** Learns that a call has used the service: it is checked from now on. */
  used(service: ServiceClient): void {
    if (service.connector.healthPath === undefined || this.#isDisposed) return;
    const known = this.#knownOf(service);
    known.usedMs = this.#parts.powers.monotonicMs();
    this.#plan(service, known);
  }

  /** Checks the services now, except those that were checked just before. Never rejects. */
  async checkNow(services: readonly ServiceClient[]): Promise<void> {
    const { powers, limits } = this.#parts;
    const due = services.filter((it) => {
      const sinceMs = powers.monotonicMs() - this.#knownOf(it).checkedMs;
      return it.connector.healthPath !== undefined && sinceMs > limits.healthKeptMs;
    });
    await Promise.all(due.map((it) => this.#check(it, this.#knownOf(it))));
  }

  /** Ends the checks of a service that is no longer there. */
  forget(service: ServiceClient): void {
    this.#services.get(service)?.timer?.cancel();
    this.#services.delete(service);
  }

  [Symbol.dispose](): void {
    this.#isDisposed = true;
    for (const { timer } of this.#services.values()) timer?.cancel();
    this.#services.clear();
  }

  #knownOf(service: ServiceClient): CheckedService {
    const known = this.#services.get(service) ?? { usedMs: -Infinity, checkedMs: -Infinity };
    this.#services.set(service, known);
    return known;
  }

  /** Sets the time of the next check; a service that began to fail is checked sooner. */
  #plan(service: ServiceClient, known: CheckedService): void {
    known.timer?.cancel();
    const { powers, limits } = this.#parts;
    const { state, failures, retryAfterMs = 0 } = service.state;
    const isBroken = state === 'failing' || state === 'paused';
    const backOffMs = Math.min(limits.connectorPauseMs * 2 ** (failures - 1), limits.connectorPauseMsMax);
    const everyMs = isBroken ? Math.max(retryAfterMs, backOffMs) : limits.serviceCheckEveryMs;
    const random = fraction(powers);
    known.timer = powers.after(everyMs * (1 + JITTER * (2 * random - 1)), () => void this.#turn(service, known));
  }

  async #turn(service: ServiceClient, known: CheckedService): Promise<void> {
    const { powers, limits } = this.#parts;
    const isUsed = powers.monotonicMs() - known.usedMs < limits.serviceCheckUsedMs;
    if (!isUsed && service.state.failures === 0) return;
    await this.#check(service, known);
    if (this.#services.get(service) === known) this.#plan(service, known);
  }

  #check(service: ServiceClient, known: CheckedService): Promise<void> {
    known.checking ??= this.#ask(service).finally(() => {
      known.checking = undefined;
      known.checkedMs = this.#parts.powers.monotonicMs();
    });
    return known.checking;
  }

  async #ask(service: ServiceClient): Promise<void> {
    if (service.state.state === 'limited') return;
    const { reach, powers } = this.#parts;
    const { name } = service.connector;
    const before = service.state.failures;
    try {
      await reach(service, (call) => service.probe(call));
    } catch (error) {
      // A service that fails is known by its state; what else keeps a check from being made says nothing about it.
      if (!(error instanceof ToolError)) powers.log.error({ service: name, error }, 'a health check failed');
    }
    const { failures, problem } = service.state;
    if (before === 0 && failures > 0) powers.log.warn({ service: name, problem }, 'a service fails its health check');
    if (before > 0 && failures === 0) powers.log.info({ service: name }, 'a service works again');
  }
}
