import { expect, test } from 'vitest';
import { modulesOf } from '../../src/runtime.ts';

test.each([
  ['/a/node_modules/zod/index.js', '/a/node_modules'],
  ['/a/node_modules/ringfence/node_modules/zod/index.js', '/a/node_modules/ringfence/node_modules'],
  // The links to zod's dependencies are in the store, beside zod.
  ['/a/node_modules/.pnpm/zod@4.1.0/node_modules/zod/index.js', '/a/node_modules/.pnpm'],
])('hosts see of %s all of %s', (path, folder) => {
  expect(modulesOf(path)).toBe(folder);
});
