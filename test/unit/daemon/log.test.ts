import { expect, test } from 'vitest';
import { toPlain, withPriority } from '../../../src/daemon/log.ts';

const line = (fields: object) => `${JSON.stringify({ level: 30, time: 1_000, pid: 1, hostname: 'here', ...fields })}\n`;

test('a person sees when, how bad, what, and the facts, on one line', () => {
  const plain = toPlain(line({ level: 40, listeners: ['/run/a.sock'], level2: 'A', msg: 'ready' }));
  expect(plain).toMatch(/^\d\d:\d\d:\d\d WARN {2}ready listeners=\["\/run\/a\.sock"\] level2="A"\n$/);
});

test('no text of others is a line of its own, drives a terminal, or fills it', () => {
  const plain = toPlain(line({ msg: 'policy "a":\n\u001b[2J', reason: 'x\n\u001b[2J', long: 'y'.repeat(1000) }));
  expect(plain).toContain('policy "a":\\n\\u001b[2J reason="x\\n\\u001b[2J" long="yyy');
  expect(plain.length).toBeLessThan(300);
  expect(plain.slice(0, -1)).not.toMatch(/\p{Cc}/u);
});

test('a line without words is told, too', () => {
  expect(toPlain(line({ error: { message: 'm' } }))).toMatch(/INFO {3}error=\{"message":"m"\}\n$/);
});

test.each([
  [60, 2],
  [50, 3],
  [40, 4],
  [30, 6],
  [20, 7],
  [10, 7],
])('a line of level %i has priority %i in the journal', (level, priority) => {
  const text = line({ level, msg: '"level":60' });
  expect(withPriority(text)).toBe(`<${priority}>${text}`);
});
