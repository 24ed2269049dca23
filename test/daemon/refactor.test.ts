/** Refactorings through a daemon: rules about single files hold. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, expect, test } from 'vitest';
import type { HostReport } from '../../src/base/call.ts';
import type { Client } from '../../src/client/client.ts';
import { runCli } from '../support/cli.ts';
import { BUILT_IN_DEFAULT, dataOf, type OpenDaemon, openDaemon, until } from '../support/daemon.ts';

let daemon: OpenDaemon;
let client: Client;
afterEach(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

async function start(policy: string): Promise<void> {
  daemon = await openDaemon({ policy });
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
  await start(`rules:
  - { id: kept, match: { write: 'src/shape.ts' }, decision: deny, reason: It is generated. }
`);
  const result = await client.call('code_refactor', RENAME);
  expect(result).toMatchObject({ success: false, error: { code: 'POLICY_DENIED' } });
  expect(read('src/use.ts')).toContain('area');
  const shown = await dataOf(client.call('code_type_check', { files: ['src/use.ts'] }));
  expect(shown.success).toBe(true);
}, 60_000);

test('a rename whose time is over while its types are checked ends as TIMEOUT', async () => {
  await start(BUILT_IN_DEFAULT);
  put('src/slow.ts', `import { area } from './shape';\nexport const slow = area;\n${SLOW}`);
  const result = await client.call('code_refactor', { ...RENAME, path: 'src/slow.ts' }, { timeoutMs: 1500 });
  expect(result).toMatchObject({ success: false, error: { code: 'TIMEOUT' } });
}, 60_000);

test('status shows the language server that a host keeps, and its memory', async () => {
  await start(BUILT_IN_DEFAULT);
  await dataOf(client.call('code_type_check', { files: ['src/use.ts'] }));
  const { hosts } = (await client.request('status', {})) as { hosts: HostReport[] };
  const children = hosts.filter(({ tier }) => tier === 'read_only').flatMap((it) => it.children);
  const server = children.find(({ program }) => program === 'tsc');
  expect(server?.rssBytes).toBeGreaterThan(20 * 1024 * 1024);
  expect((await runCli(daemon, ['status'])).stdout).toMatch(new RegExp(`runs tsc +pid ${server?.pid} +\\d+ MiB`));
}, 60_000);

test('an inlining is refused with what to do; the move of a directory is approved by its diff, and taken back by one undo', async () => {
  await start('tiers:\n  write: { decision: ask }\n');
  put('use.ts', "import { area } from './src/shape';\nexport const twice = area * 2;\n");
  put('src/note.txt', 'stays\n');
  const before = ['use.ts', 'src/use.ts', 'src/shape.ts', 'src/note.txt'].map((it) => read(it));
  await using operator = await daemon.connect({ role: 'operator' });
  /** Answers the next question with yes, and gives the diff that it shows. */
  const approve = async (): Promise<string> => {
    let asked: { approvalId: string; diff: string } | undefined;
    await until(async () => {
      const { approvals } = (await operator.request('approvals.list', {})) as { approvals: (typeof asked)[] };
      [asked] = approvals;
      return asked !== undefined;
    }, 30_000);
    const { approvalId, diff } = asked as { approvalId: string; diff: string };
    await operator.request('approvals.resolve', { approvalId, decision: 'approve' });
    return diff;
  };
  const approved = async (input: object): Promise<{ diff: string; callId: string }> => {
    const running = client.call('code_refactor', input as never);
    const diff = await approve();
    const result = await running;
    expect(result).toMatchObject({ success: true, metadata: { undo: 'full' } });
    return { diff, callId: result.callId };
  };
  const refused = await client.call('code_refactor', { operation: 'inline', path: 'use.ts', symbol: 'twice' } as never);
  expect(refused).toMatchObject({
    error: { code: 'INPUT_INVALID', message: expect.stringContaining('with file_edit') },
  });
  const moved = await approved({ operation: 'move_file', path: 'src', to: 'lib/inner' });
  expect(moved.diff).toContain('rename src => lib/inner');
  expect(moved.diff).toContain("+import { area } from './lib/inner/shape';");
  expect(read('use.ts')).toContain("from './lib/inner/shape'");
  expect(read('lib/inner/note.txt')).toBe('stays\n');
  for (const { callId } of [moved]) {
    const undoing = client.request('calls.undo', { callId });
    await approve();
    await undoing;
  }
  expect(['use.ts', 'src/use.ts', 'src/shape.ts', 'src/note.txt'].map((it) => read(it))).toEqual(before);
  expect(existsSync(join(daemon.workspace, 'lib'))).toBe(false);
}, 120_000);

test('a rule about a file inside of a moved directory refuses the move, and nothing is written', async () => {
  await start(`rules:
  - { id: kept, match: { write: 'src/shape.ts' }, decision: deny, reason: It is generated. }
`);
  const result = await client.call('code_refactor', { operation: 'move_file', path: 'src', to: 'lib' });
  expect(result).toMatchObject({ success: false, error: { code: 'POLICY_DENIED' } });
  expect(existsSync(join(daemon.workspace, 'lib'))).toBe(false);
  expect(read('src/use.ts')).toContain("from './shape'");
}, 60_000);

const SLOW = `type Digit = 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9;
type Many = \`\${Digit}\${Digit}\${Digit}\${Digit}\`;
type Pairs<T extends string, U extends string> = T extends string ? (U extends string ? [T, U] : never) : never;
export const it: Pairs<Many, Many> = 0;
`;
