/** Refactorings through a daemon: rules about single files hold. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import type { Client } from '../../src/client.ts';
import { ALLOW_ALL, dataOf, startDaemon, type TestDaemon } from '../support/daemon.ts';

let daemon: TestDaemon;
let client: Client;
afterEach(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

async function start(policy: string): Promise<void> {
  daemon = await startDaemon({ policy });
  client = await daemon.connect();
  mkdirSync(join(daemon.workspace, 'src'));
  put('tsconfig.json', '{ "compilerOptions": { "strict": true, "noEmit": true } }');
  put('src/shape.ts', 'export const area = 1;\n');
  put('src/use.ts', "import { area } from './shape';\nexport const o = area;\n");
}
const put = (path: string, text: string) => writeFileSync(join(daemon.workspace, path), text);
const read = (path: string) => readFileSync(join(daemon.workspace, path), 'utf8');
const RENAME = { operation: 'rename', path: 'src/use.ts', symbol: 'area', newName: 'surface' } as const;

test('a file that a rule protects refuses the whole rename, and nothing is written', async () => {
  await start(`${ALLOW_ALL}rules:
  - { id: kept, match: { write: 'src/shape.ts' }, decision: deny, reason: It is generated. }
`);
  const result = await client.call('code_refactor', RENAME);
  expect(result).toMatchObject({ success: false, error: { code: 'POLICY_DENIED' } });
  expect(read('src/use.ts')).toContain('area');
  const shown = await dataOf(client.call('code_type_check', { files: ['src/use.ts'] }));
  expect(shown.success).toBe(true);
}, 60_000);

test('a rename whose time is over while its types are checked ends as TIMEOUT', async () => {
  await start(ALLOW_ALL);
  put('src/slow.ts', `import { area } from './shape';\nexport const slow = area;\n${SLOW}`);
  const result = await client.call('code_refactor', { ...RENAME, path: 'src/slow.ts' }, { timeoutMs: 1500 });
  expect(result).toMatchObject({ success: false, error: { code: 'TIMEOUT' } });
}, 60_000);

const SLOW = `type Digit = 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9;
type Many = \`\${Digit}\${Digit}\${Digit}\${Digit}\`;
type Pairs<T extends string, U extends string> = T extends string ? (U extends string ? [T, U] : never) : never;
export const it: Pairs<Many, Many> = 0;
`;
