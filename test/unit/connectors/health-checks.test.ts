/** When services are checked, by a clock of the test. */
import { expect, test } from 'vitest';
import { defaultLimits } from '../../../src/base/limits.ts';
import { type Powers, silentLog, systemPowers, type Timer } from '../../../src/base/powers.ts';
import { FILE, toConnector } from '../../../src/services/connectors/connector.ts';
import { HealthChecks } from '../../../src/services/connectors/health-checks.ts';
import { ServiceClient } from '../../../src/services/connectors/service-client.ts';
import { Secrets } from '../../../src/services/secrets/secrets.ts';

const TEXT = `
connector: played
base: https://played.example
health: { path: /up }
operations: { ping: { description: Asks., request: { method: GET, path: /ping }, output: { status: status } } }
`;
const { serviceCheckEveryMs: everyMs, serviceCheckUsedMs: usedMs, connectorPauseMsMax } = defaultLimits;

/** A clock that a test moves; timers run when it passes them, with all that they do. */
class Clock {
  nowMs = 0;
  readonly #timers = new Set<{ atMs: number; run: () => void }>();

  readonly powers: Powers = {
    ...systemPowers(silentLog),
    monotonicMs: () => this.nowMs,
    now: () => this.nowMs,
    after: (delayMs, run): Timer => {
      const timer = { atMs: this.nowMs + delayMs, run };
      this.#timers.add(timer);
      return { cancel: () => void this.#timers.delete(timer) };
    },
  };

  get waiting(): number {
    return this.#timers.size;
  }

  async pass(ms: number): Promise<void> {
    const endMs = this.nowMs + ms;
    for (;;) {
      const next = [...this.#timers].filter((it) => it.atMs <= endMs).toSorted((a, b) => a.atMs - b.atMs)[0];
      if (!next) break;
      this.nowMs = next.atMs;
      this.#timers.delete(next);
      next.run();
      // All that the timer began ends in promises.
      await new Promise((resolve) => setImmediate(resolve));
    }
    this.nowMs = endMs;
  }
}

function start() {
  const clock = new Clock();
  const { powers } = clock;
  const connector = toConnector({ [FILE]: TEXT }, defaultLimits, 'played');
  const settings = { commands: {}, environment: {} };
  const secrets = new Secrets({ stateDir: '/nowhere', settings, limits: defaultLimits });
  const service = new ServiceClient(connector, { secrets, limits: defaultLimits, powers });
  const asked: number[] = [];
  const answer = { status: 200, headers: {}, body: new Uint8Array(), truncated: false };
  const checks = new HealthChecks({
    limits: defaultLimits,
    powers,
    reach: (_, work) =>
      work({
        fetch: async ({ url }) => {
          expect(url).toBe('https://played.example/up');
          asked.push(clock.nowMs);
          return answer;
        },
      }),
  });
  return { clock, service, checks, asked, answer };
}

test('a service is checked at intervals that vary, until it was not used for a while', async () => {
  const { clock, service, checks, asked } = start();
  await clock.pass(usedMs);
  expect(asked).toEqual([]);
  checks.used(service);
  await clock.pass(usedMs * 3);
  expect(asked.length).toBeGreaterThan(usedMs / everyMs / 1.3);
  expect(asked.length).toBeLessThan(usedMs / everyMs / 0.7);
  const waits = asked.slice(1).map((atMs, at) => atMs - (asked[at] as number));
  for (const it of waits) expect(it / everyMs).toSatisfy((part: number) => part >= 0.75 && part <= 1.25);
  expect(new Set(waits).size).toBeGreaterThan(1);
  expect(clock.waiting).toBe(0);
  checks.used(service);
  expect(clock.waiting).toBe(1);
});

test('a service that fails is checked ever more rarely, also when nobody uses it, and no more once it works', async () => {
  const { clock, service, checks, asked, answer } = start();
  answer.status = 500;
  checks.used(service);
  await clock.pass(usedMs + 12 * connectorPauseMsMax);
  const waits = asked.slice(1).map((atMs, at) => atMs - (asked[at] as number));
  expect(waits[0]).toBeLessThan(7_000);
  expect(Math.max(...waits)).toBeGreaterThan(connectorPauseMsMax * 0.74);
  // A pause may just have ended when the clock stops; right behind a failed check there is one.
  const checked = asked.length;
  while (asked.length === checked) await clock.pass(1_000);
  expect(service.state).toMatchObject({
    state: 'paused',
    problem: 'it answered 500',
    since: new Date(asked[0] as number).toISOString(),
  });
  answer.status = 200;
  await clock.pass(2 * connectorPauseMsMax);
  expect(service.state).toEqual({ state: 'ok', failures: 0 });
  expect(clock.waiting).toBe(0);
});

test('a service that is gone is checked no more, nor one after the end of the checks', async () => {
  const { clock, service, checks } = start();
  checks.used(service);
  checks.forget(service);
  expect(clock.waiting).toBe(0);
  checks.used(service);
  checks[Symbol.dispose]();
  checks.used(service);
  expect(clock.waiting).toBe(0);
});
