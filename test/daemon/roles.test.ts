/** examples/roles: three principals in the config, and what each may do. */
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { createClient } from '../../src/client/client.ts';
import { repository, startDaemon } from '../support/daemon.ts';

const folder = join(repository, 'examples/roles');

test('the roles of the example are decided about as its policies say', async () => {
  const config = parse(readFileSync(join(folder, 'config.yaml'), 'utf8')) as {
    principals: Record<string, { policy?: string }>;
  };
  const user = config.principals.user as { policy: string };
  const principals = { ...config.principals, user: { policy: join(folder, user.policy) } };
  const policy = readFileSync(join(folder, 'admin.yaml'), 'utf8');
  await using daemon = await startDaemon({ policy, config: { principals } });
  const words = [join(folder, 'decisions.ts'), daemon.socket, daemon.stateDir, daemon.workspace];
  const said = execFileSync(process.execPath, words, { encoding: 'utf8' }).trim().split('\n');
  const decisions = said.map((line) => line.split(/\s+/));
  const of = (role: string) => decisions.filter(([it]) => it === role).map(([, decision]) => decision);
  // Reading, documentation, source, deleting, a commit, a command, a request.
  expect(of('user')).toEqual(['allow', 'allow', 'ask', 'ask', 'ask', 'ask', 'ask']);
  expect(of('admin')).toEqual(['allow', 'allow', 'allow', 'ask', 'ask', 'ask', 'ask']);
  const auto = of('auto');
  expect([auto.slice(0, 3), auto[5], auto[6]]).toEqual([['allow', 'allow', 'allow'], 'ask', 'deny']);
  // What would need approval is denied at once.
  const token = readFileSync(join(daemon.stateDir, 'tokens/auto.token'), 'utf8').trim();
  await using client = await createClient({ socket: daemon.socket, workspace: daemon.workspace, token });
  writeFileSync(join(daemon.workspace, 'kept'), '');
  expect(await client.call('file_delete', { path: 'kept' })).toMatchObject({ error: { code: 'APPROVAL_DENIED' } });
  expect(existsSync(join(daemon.workspace, 'kept'))).toBe(true);
});
