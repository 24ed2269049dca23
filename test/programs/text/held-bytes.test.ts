import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { heldBytes } from '../../../src/base/text/held-bytes.ts';

/** Heap bytes per value, for many values decoded from JSON, in a separate process. */
function measured(text: string): number {
  const json = fileURLToPath(new URL('../../../src/wire/protocol/json.ts', import.meta.url));
  const limits = fileURLToPath(new URL('../../../src/base/limits.ts', import.meta.url));
  const program = `
    const [{ decodeJson }, { defaultLimits }] = await Promise.all([import(${JSON.stringify(json)}), import(${JSON.stringify(limits)})]);
    const text = Buffer.from(process.argv[1]), all = new Array(20000);
    gc();
    const before = process.memoryUsage().heapUsed;
    for (let at = 0; at < all.length; at++) all[at] = decodeJson(text, defaultLimits);
    gc();
    console.log((process.memoryUsage().heapUsed - before) / all.length);`;
  return Number(
    execFileSync(process.execPath, ['--expose-gc', '--input-type=module', '-e', program, text], { encoding: 'utf8' }),
  );
}

test.each([
  '{}',
  '{"a":1}',
  '{"a":{"b":{"c":1}}}',
  '{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"j":10}',
  '[{},{},{},{},{},{},{},{},{},{}]',
  '[1,2,3,4,5,6,7,8,9,10]',
  `{"content":"${'x'.repeat(500)}"}`,
])('%.30s takes about what is counted for it', (text) => {
  const counted = heldBytes(JSON.parse(text));
  expect(counted / measured(text)).toBeGreaterThan(0.6);
  expect(counted / measured(text)).toBeLessThan(2.5);
});

test('bytes are counted once, whatever holds them', () => {
  expect(heldBytes({ data: new Uint8Array(1000) })).toBeLessThan(1500);
});
