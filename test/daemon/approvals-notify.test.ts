/** `ringfence approvals watch --notify`, with a program in the place of the desktop's that writes down what it is told. */
import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { beginCli, endOf } from '../support/cli.ts';
import { openDaemon, removeTree, temporaryDir, until } from '../support/daemon.ts';

test('a question becomes one notice of the desktop, which names agent and tool and no parameter', async () => {
  await using daemon = await openDaemon({ policy: 'tiers:\n  execute: { decision: ask }\n' });
  await using agent = await daemon.connect();
  const bin = temporaryDir('desktop');
  const told = join(bin, 'told');
  writeFileSync(join(bin, 'notify-send'), `#!/bin/sh\nprintf '%s\\n' "$@" end >>'${told}'\n`);
  chmodSync(join(bin, 'notify-send'), 0o755);
  const env = { PATH: `${bin}:${process.env.PATH}` };
  const watch = beginCli(daemon, ['approvals', 'watch', '--notify', '--json'], { env, keepsInput: true });
  try {
    await using operator = await daemon.connect({ role: 'operator' });
    const watchers = async () => ((await operator.request('status', {})) as { approvers: number }).approvers;
    await until(async () => (await watchers()) > 0);
    const called = agent.call('terminal_execute', { command: 'echo hidden-parameter' });
    called.catch(() => {}); // Ends with its client.
    await until(() => existsSync(told) && readFileSync(told, 'utf8').endsWith('end\n'));
    const [app, dashes, title, body, end, ...more] = readFileSync(told, 'utf8').trimEnd().split('\n');
    expect([app, dashes, title, end, more]).toEqual([
      '--app-name=Ringfence',
      '--',
      'Ringfence waits for you',
      'end',
      [],
    ]);
    expect(body).toContain('terminal_execute');
    expect(body).not.toContain('hidden-parameter');
  } finally {
    watch.kill('SIGINT');
    await endOf(watch);
    removeTree(bin);
  }
});
