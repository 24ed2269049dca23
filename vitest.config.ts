import { defineConfig } from 'vitest/config';
import { filesOf, lanes, namedElsewhere } from './test/lanes.ts';
import { nightly } from './test/nightly.ts';

// `script/test --all` sets it.
const exclude = process.env.RINGFENCE_TEST_ALL ? [] : Object.keys(nightly);

// Two cores. Half of a daemon test is waiting, so three files at once use them.
const groups = {
  programs: { groupOrder: 1, maxWorkers: 3 },
  daemon: { groupOrder: 1, maxWorkers: 3 },
  'own-daemon': { groupOrder: 1, maxWorkers: 3 },
  alone: { groupOrder: 2, maxWorkers: 1 },
} as const;

export default defineConfig({
  test: {
    // Bounds for a test that hangs, not for one that is slow: a CI machine may take three times as long as a desk.
    testTimeout: 90_000,
    hookTimeout: 90_000,
    expect: { poll: { timeout: 20_000 } },
    // A worker keeps its modules from file to file: loading the product again for each of 400 files took a third of the time.
    isolate: false,
    projects: [
      {
        extends: true,
        test: {
          name: 'pure',
          include: filesOf(lanes.pure),
          exclude,
          pool: 'threads',
          maxWorkers: 2,
          sequence: { groupOrder: 0 },
          setupFiles: ['test/support/no-processes.ts'],
        },
      },
      ...(['programs', 'daemon', 'own-daemon', 'alone'] as const).map((name) => ({
        extends: true as const,
        test: {
          name,
          include: filesOf(lanes[name]),
          exclude: [...exclude, ...namedElsewhere(lanes[name])],
          pool: 'forks' as const,
          maxWorkers: groups[name].maxWorkers,
          sequence: { groupOrder: groups[name].groupOrder },
        },
      })),
    ],
  },
});
