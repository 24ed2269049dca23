/** Where a daemon works for which the config names no folder. */
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { startFolder, writeAdded } from '../../../src/daemon/config/added.ts';
import { temporaryDir } from '../../support/daemon.ts';

test('a service, which starts in `/`, works in the first added folder that is there; other daemons where they start', () => {
  const stateDir = temporaryDir('state');
  try {
    const there = join(stateDir, 'project');
    mkdirSync(there);
    expect(startFolder('/', { stateDir })).toBe('/');
    writeAdded({ stateDir }, ['/nowhere/project', there]);
    expect(startFolder('/', { stateDir })).toBe(there);
    expect(startFolder('/srv/shop', { stateDir })).toBe('/srv/shop');
  } finally {
    rmSync(stateDir, { recursive: true, force: true });
  }
});
