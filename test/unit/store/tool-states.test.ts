import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { defaultLimits } from '../../../src/base/limits.ts';
import { systemPowers } from '../../../src/base/powers.ts';
import { ToolStates } from '../../../src/store/tool-states.ts';
import { temporaryDir } from '../../support/daemon.ts';

test('a new state replaces the old one, and the state written longest ago is removed first', () => {
  const folder = temporaryDir('states');
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const limits = { ...defaultLimits, toolStatesMax: 2 };
  const path = join(folder, 'tools.db');
  let now = 0;
  {
    using states = new ToolStates(path, limits, { ...systemPowers(), now: () => ++now });
    states.set('a', '/x', [1]);
    states.set('a', '/y', [2]);
    states.set('a', '/x', { again: true });
    states.set('b', '/x', 'third');
  }
  using states = new ToolStates(path, limits, systemPowers());
  expect([states.get('a', '/x'), states.get('a', '/y'), states.get('b', '/x')]).toEqual([
    { again: true },
    undefined,
    'third',
  ]);
});
