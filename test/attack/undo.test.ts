/** The undo journal's spool: no command and no other host reaches it. */
import { existsSync, readdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { eachIdentity } from '../support/arena.ts';
import { dataOf } from '../support/daemon.ts';

eachIdentity({}, (arena) => {
  const spools = () => {
    const folder = join(realpathSync(arena.daemon.stateDir), 'journal');
    return existsSync(folder) ? readdirSync(folder).map((it) => join(folder, it)) : [];
  };

  test('only the write host holds the spool, and a command can neither see, nor read, nor change it', async () => {
    const { client, daemon, identity } = arena;
    writeFileSync(join(daemon.workspace, 'kept'), 'the old content');
    const written = await client.call('file_write', { path: 'kept', content: 'new', ifHash: undefined });
    expect(written.success || identity.workspace !== undefined).toBe(true);
    await dataOf(client.call('file_list', { path: '.' }));
    const { hosts } = (await client.request('status', {})) as { hosts: { tier: string; pid: number }[] };
    const holding = hosts
      .filter(({ pid }) => readFileSync(`/proc/${pid}/mountinfo`, 'utf8').includes('/journal/'))
      .map(({ tier }) => tier);
    // A daemon of root keeps no journal for workspaces of others: their hosts can't reach its state directory.
    expect(holding).toEqual(identity.workspace ? [] : ['write']);
    expect(written.metadata.undo).toBe(identity.workspace ? 'none' : 'full');
    for (const spool of spools()) {
      const before = readdirSync(spool);
      expect(before.length).toBeGreaterThan(0);
      const tries = `ls ${spool}; cat ${spool}/* ${spool}/*/*; touch ${spool}/planted; rm -rf ${spool}/*; mkdir -p ${spool}/x && touch ${spool}/x/y; find / -name '${before[0]}*' 2>/dev/null; true`;
      const { stdout } = await dataOf(client.call('terminal_execute', { command: tries }));
      expect(stdout).not.toContain('the old content');
      expect(stdout).not.toContain(before[0]);
      expect(readdirSync(spool)).toEqual(before);
    }
  });
});
