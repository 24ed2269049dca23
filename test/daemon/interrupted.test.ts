/** An interrupted script/test ends everything that its tests started. */
import { spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';
import { processesWith, repository, temporaryDir, until } from '../support/daemon.ts';

test.each(['SIGINT', 'SIGTERM'] as const)(
  'a run that gets %s leaves no process and no folder of its own',
  async (signal) => {
    const folder = temporaryDir('run');
    const ready = join(folder, 'ready');
    const config = 'test/fixtures/interrupted/vitest.config.ts';
    const run = spawn(join(repository, 'script/test'), ['--config', config], {
      env: { ...process.env, TMPDIR: folder, READY_FILE: ready },
      stdio: 'ignore',
    });
    const ended = new Promise<number | null>((resolve) => run.once('exit', resolve));
    await until(() => existsSync(ready), 25_000);
    const ofRun = dirname(readFileSync(ready, 'utf8'));
    expect(processesWith(ofRun).length).toBeGreaterThan(1);
    run.kill(signal);
    expect(await ended).toBe(signal === 'SIGINT' ? 130 : 143);
    expect(processesWith(ofRun)).toEqual([]);
    expect(readdirSync(folder).filter((it) => it.startsWith('rf-'))).toEqual([]);
    rmSync(folder, { recursive: true });
  },
  60_000,
);
