/** The log where systemd's journal reads standard error. */
import { expect, test } from 'vitest';
import { startDaemon } from '../support/daemon.ts';

/** Sets JOURNAL_STREAM as systemd does: to the device and inode of standard error. */
const AS_SYSTEMD = ['sh', '-c', 'exec env JOURNAL_STREAM="$(stat -L -c %d:%i /proc/self/fd/2)" "$@"', 'sh'];

/** Log lines of a daemon that ends at once. */
async function linesOf(options: Parameters<typeof startDaemon>[0]): Promise<string[]> {
  const daemon = await startDaemon(options);
  await daemon[Symbol.asyncDispose]();
  return daemon.log().trim().split('\n');
}

test('each line for the journal has its priority, and no time of its own', async () => {
  const lines = await linesOf({ launcher: AS_SYSTEMD, env: { RINGFENCE_LOG: 'debug' } });
  expect(lines.length).toBeGreaterThan(1);
  for (const line of lines) {
    const [, priority, json = ''] = /^<(\d)>(\{.*\})$/.exec(line) ?? [];
    const { level, time, msg } = JSON.parse(json) as { level: number; time?: number; msg: string };
    expect(time).toBeUndefined();
    expect({ level, msg, priority }).toEqual({ level, msg, priority: level >= 30 ? { 30: '6', 40: '4' }[level] : '7' });
  }
});

test('a stream that is not the journal gets plain JSON with the time, whatever the environment says', async () => {
  for (const JOURNAL_STREAM of ['1:2', '', 'x'])
    for (const line of await linesOf({ env: { JOURNAL_STREAM } }))
      expect(JSON.parse(line)).toMatchObject({ time: expect.any(Number) });
}, 30_000);
