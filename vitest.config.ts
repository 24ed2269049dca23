import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    pool: 'forks',
    // Two cores: more daemons at once only wait for each other.
    maxWorkers: 2,
    // Bounds for a test that hangs, not for one that is slow: a CI machine may take three times as long as a desk.
    testTimeout: 90_000,
    hookTimeout: 90_000,
    expect: { poll: { timeout: 20_000 } },
  },
});
