import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { modulesOf } from '../../src/base/runtime.ts';

test('every program that is started is built', () => {
  const [runtime = '', build = ''] = ['src/base/runtime.ts', 'script/build.ts'].map((it) =>
    readFileSync(fileURLToPath(new URL(`../../${it}`, import.meta.url)), 'utf8'),
  );
  const started = [...runtime.matchAll(/hostOf\('([\w/-]+)'|'src', `([\w/-]+)\$\{extension\}`/g)].map(
    (it) => it[1] ?? it[2],
  );
  expect(started).toEqual(
    expect.arrayContaining(['host', 'entries/fleet-node', 'agent/agent-host', 'database/process']),
  );
  expect(started.filter((it) => !build.includes(`'${it}'`))).toEqual([]);
});

test.each([
  ['/a/node_modules/zod/index.js', '/a/node_modules'],
  ['/a/node_modules/ringfence/node_modules/zod/index.js', '/a/node_modules/ringfence/node_modules'],
  // The links to zod's dependencies are in the store, beside zod.
  ['/a/node_modules/.pnpm/zod@4.1.0/node_modules/zod/index.js', '/a/node_modules/.pnpm'],
])('hosts see of %s all of %s', (path, folder) => {
  expect(modulesOf(path)).toBe(folder);
});
