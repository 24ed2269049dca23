/** The screen of `ringfence top`. */
import { expect, test } from 'vitest';
import { topLines } from '../../../src/cli/monitor/top.ts';

const evil = 'x\u001b[2J\u202e\nrm';
const snapshot = {
  nowMs: Date.parse('2026-01-01T00:02:00Z'),
  rates: { callsPerSecond: 12.34, failuresPerSecond: 0.5, meanMs: 1.26 },
  calls: [
    {
      ...{ callId: evil, tool: evil, createdAt: '2026-01-01T00:00:00Z', client: evil },
      ...{
        state: { status: 'in-progress', startedAt: '' } as const,
        effects: [{ kind: 'exec' as const, target: evil.repeat(100) }],
      },
    },
  ],
  status: {
    ...{ uptimeMs: 7_300_000, version: '0.1.0', pid: 7, rssBytes: 80 * 1024 * 1024 },
    calls: { queued: 1, running: 2, blocked: 3 },
    openSessions: [
      {
        sessionId: 's1',
        client: evil,
        principal: 'uid:0',
        role: 'agent',
        workspace: `/ws/${evil.repeat(50)}`,
        calls: 2,
      },
    ],
    hosts: [
      {
        tier: 'execute',
        workspace: evil,
        pid: 42,
        threads: 4,
        busy: 1,
        rssBytes: 1024 * 1024,
        cpuMs: 900,
        restarts: 0,
      },
    ],
  },
};

test.each([80, 40, 120])('no line is longer than a terminal of %i columns', (columns) => {
  for (const line of topLines(snapshot, columns)) expect(Array.from(line).length).toBeLessThanOrEqual(columns);
});

test('names of callers neither control the terminal nor turn its text around', () => {
  for (const line of topLines(snapshot, 200)) expect(line).not.toMatch(/\p{Cc}|\p{Cf}/u);
});

test('top shows rates, sessions, calls and hosts', () => {
  const text = topLines(snapshot, 120).join('\n');
  expect(text).toContain('up 2 h');
  expect(text).toContain('2 running, 1 queued, 3 waiting for a person  12.3 calls/s, 0.5 failed/s, mean 1.3 ms');
  expect(text).toMatch(/^s1 +2 {2}x/m);
  expect(text).toMatch(/in-progress +2 min/);
  expect(text).toMatch(/^execute +42 +1\/4 +1 +1 s/m);
});
