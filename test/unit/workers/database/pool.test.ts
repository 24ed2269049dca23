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
  const first = pool.run(1, ASKED, 1_000);
  const second = codeOf(pool.run(2, ASKED, 1_000));
  const third = pool.run(3, ASKED, 1_000);
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
  const first = codeOf(pool.run(1, ASKED, 1_000));
  const second = pool.run(2, ASKED, 1_000);
  await settle();
  await pool.cancel(1);
  expect(await first).toBe('CANCELLED');
  await settle();
  opened[1]?.answer();
  expect(await second).toBe(ANSWER);
});

test('the end of a pool ends what runs and what waits', async () => {
  const { pool } = makePool(1);
  const all = [1, 2, 3].map((id) => codeOf(pool.run(id, ASKED, 1_000)));
  await settle();
  await pool.end();
  expect(await Promise.all(all)).toEqual(['CANCELLED', 'CANCELLED', 'CANCELLED']);
});
