import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import { systemPowers } from '../../../src/base/powers.ts';
import { StderrLog } from '../../../src/hosts/stderr-log.ts';

test('a process that complains without end fills the log up to its bound, and its last words are known still', async () => {
  const logged: { stderr: string; cut?: true }[] = [];
  const { log: silent } = systemPowers();
  const log = { ...silent, warn: (it: object) => void logged.push(it as (typeof logged)[number]) };
  const from = new PassThrough();
  const stderr = new StderrLog(
    from,
    { log, about: { tier: 'isolate' }, message: 'complains' },
    { hostStderrCharsMax: 10_000 },
  );
  for (let at = 0; at < 100; at++) from.write(`${'x'.repeat(999)}\n`);
  from.end('the end\n');
  await new Promise((read) => from.once('end', read));
  expect(logged.map((it) => it.stderr).join('').length).toBe(10_000);
  expect(logged.filter((it) => it.cut)).toEqual([logged.at(-1)]);
  expect(logged[0]).toMatchObject({ tier: 'isolate' });
  expect(stderr.last).toBe('the end');
  expect(stderr.text.length).toBeLessThanOrEqual(4096);
});

test("a host that ends with an error of Node gives the error's message as the reason", async () => {
  const { log } = systemPowers();
  const from = new PassThrough();
  const stderr = new StderrLog(
    from,
    { log, about: { tier: 'isolate' }, message: 'complains' },
    { hostStderrCharsMax: 0 },
  );
  from.end(
    "node:internal/modules:861\n  throw it;\n\nError [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod'\n    at main\n\nNode.js v26.10.0\n",
  );
  await new Promise((read) => from.once('end', read));
  expect(stderr.last).toBe("Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod'");
});
