import { expect, test } from 'vitest';
import { SessionPool } from '../../../../workers/database/pool.ts';
import type { Answer, ServerSession } from '../../../../workers/database/session.ts';
import { Refused } from '../../../../workers/sqlite/refusals.ts';

const ASKED = { what: 'schema', maxRows: 1 } as const;
const ANSWER: Answer = { columns: [], rows: [] };

/** A session whose statements end when the test says so. */
class PlayedSession implements ServerSession {
  isUsable = true;
  readonly #work = Promise.withResolvers<Answer>();

  run(): Promise<Answer> {
    return this.#work.promise;
  }
  answer(): void {
    this.#work.resolve(ANSWER);
  }
  async reset(): Promise<void> {}
  async cancel(): Promise<void> {
    this.isUsable = false;
    this.#work.reject(new Refused('CANCELLED', 'cancelled'));
  }
  end(): void {}
}

function makePool(sessionsMax: number) {
  const opened: PlayedSession[] = [];
  const open = async () => {
    const session = new PlayedSession();
    opened.push(session);
    return session;
  };
  return { opened, pool: new SessionPool({ open, sessionsMax }) };
}

const settle = () => new Promise((resolve) => setImmediate(resolve));
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'ok',
    (error: Refused) => error.refusal.code,
  );

test('a call that is cancelled while it waits for a session ends at once, and keeps no place', async () => {
  const { opened, pool } = makePool(1);
  const first = pool.run(1, ASKED, { withinMs: 1_000, session: 'a' });
  const second = codeOf(pool.run(2, ASKED, { withinMs: 1_000, session: 'a' }));
  const third = pool.run(3, ASKED, { withinMs: 1_000, session: 'a' });
  await settle();
  await pool.cancel(2);
  expect(await second).toBe('CANCELLED');
  expect(opened.length).toBe(1);
  opened[0]?.answer();
  expect(await first).toBe(ANSWER);
  expect(await third).toBe(ANSWER);
  expect(opened.length).toBe(1);
});

test('the place of a call that was cancelled while it ran goes to the next one', async () => {
  const { opened, pool } = makePool(1);
  const first = codeOf(pool.run(1, ASKED, { withinMs: 1_000, session: 'a' }));
  const second = pool.run(2, ASKED, { withinMs: 1_000, session: 'a' });
  await settle();
  await pool.cancel(1);
  expect(await first).toBe('CANCELLED');
  await settle();
  opened[1]?.answer();
  expect(await second).toBe(ANSWER);
});

/** Asks for sessions of the daemon, and notes in which order they are answered. */
function asking(pool: SessionPool) {
  const order: string[] = [];
  const ask = (id: number, session: string) =>
    codeOf(pool.run(id, ASKED, { withinMs: 1_000, session }).then(() => order.push(`${session}${id}`)));
  return { order, ask };
}

test('endless statements of one session leave a place to others, which come before its further ones', async () => {
  const { opened, pool } = makePool(4);
  const { order, ask } = asking(pool);
  const endless = Array.from({ length: 12 }, (_, id) => ask(id, 'a'));
  await settle();
  expect(opened.length).toBe(3);
  const others = [ask(20, 'b'), ask(21, 'c')];
  await settle();
  expect(opened.length).toBe(4);
  opened[0]?.answer();
  await settle();
  expect(order.slice(0, 3)).toEqual(['a0', 'c21', 'a3']);
  opened[3]?.answer();
  expect(await Promise.all(others)).toEqual(['ok', 'ok']);
  await pool.end();
  await Promise.all(endless);
});

test('a pool of one place serves sessions in turn', async () => {
  const { opened, pool } = makePool(1);
  const { order, ask } = asking(pool);
  const all = [ask(1, 'a'), ask(2, 'a'), ask(3, 'a'), ask(4, 'b')];
  await settle();
  opened[0]?.answer();
  await Promise.all(all);
  expect(order).toEqual(['a1', 'b4', 'a2', 'a3']);
});

test('the end of a pool ends what runs and what waits', async () => {
  const { pool } = makePool(1);
  const all = [1, 2, 3].map((id) => codeOf(pool.run(id, ASKED, { withinMs: 1_000, session: 'a' })));
  await settle();
  await pool.end();
  expect(await Promise.all(all)).toEqual(['CANCELLED', 'CANCELLED', 'CANCELLED']);
});
