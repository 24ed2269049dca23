/** `audit.prune` and `ringfence audit prune` of a daemon that runs. */
import { expect, test } from 'vitest';
import { runCli } from '../support/cli.ts';
import { dataOf, openDaemon, until } from '../support/daemon.ts';

test('an operator drops old entries, `audit verify` names who and what, and an agent may not', async () => {
  // So that entries of this test are old.
  await using daemon = await openDaemon({ limits: { auditMinAgeMs: 1, auditCheckpointMs: 20 } });
  const cli = (...args: string[]) => runCli(daemon, args);
  await using agent = await daemon.connect();
  for (let i = 0; i < 5; i++) await dataOf(agent.call('file_write', { path: `f${i}`, content: 'x' }));
  await expect(agent.request('audit.prune', { keep: 1 })).rejects.toMatchObject({ code: -32004 });

  await until(async () => {
    const { stdout } = await cli('audit', 'prune', '--keep', '2', '--json');
    return (JSON.parse(stdout) as { dropped: number }).dropped > 0;
  });
  const verified = await cli('audit', 'verify');
  expect(verified).toMatchObject({ code: 0, stdout: expect.stringContaining('none changed and none missing') });
  expect(verified.stderr).toMatch(/entries before \d+ were deleted\n.*operator removed those up to \d+ at \S+ with/);
  expect((await cli('audit', 'prune', '--older-than', '1s')).stdout).toMatch(/^dropped \d+ entries; \d+ are kept$/m);
  const { stdout } = await cli('audit', 'query', '--kind', 'policy', '--json');
  expect(JSON.parse(stdout)).toEqual(
    expect.arrayContaining([
      expect.objectContaining({
        detail: { log: { dropped: expect.objectContaining({ because: 'operator', by: expect.any(String) }) } },
      }),
    ]),
  );
}, 60_000);

test('a wrong request is refused with the right form of it', async () => {
  await using daemon = await openDaemon();
  const cli = (...args: string[]) => runCli(daemon, ['audit', 'prune', ...args]);
  for (const [args, message] of [
    [[], '--older-than AGE or --keep N'],
    [['--keep', '1', '--older-than', '30d'], '--older-than AGE or --keep N'],
    [['--older-than', 'yesterday'], 'an age such as 30d'],
    [['--keep', '0'], 'at least 1'],
  ] as const)
    expect(await cli(...args)).toMatchObject({ code: 2, stderr: expect.stringContaining(message) });
  const young = await cli('--older-than', '1h');
  expect(young.code).not.toBe(0);
  expect(young.stderr).toContain('entries younger than 86400000 ms are kept (auditMinAgeMs)');
  await using operator = await daemon.connect({ role: 'operator' });
  await expect(operator.request('audit.prune', {})).rejects.toMatchObject({ code: -32602 });
}, 60_000);
