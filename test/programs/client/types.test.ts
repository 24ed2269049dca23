/** What the compiler accepts in a TypeScript program that uses `ringfence/client`. */
import { spawnSync } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { repository, temporaryDir } from '../../support/daemon.ts';

const folder = temporaryDir('types');
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const PROGRAM = `
import { type Client, type ToolResult, toToolMessage } from 'ringfence/client';
export async function use(client: Client, chosen: string, result: ToolResult) {
  await client.call('file_reed', {});
  await client.call('file_read', { pth: 'a' });
  await client.call('file_read', { path: 1 });
  const read = await client.call('file_read', { path: 'a' });
  if (read.success) read.data.nothing;
  if (read.success) read.data.content.trim();
  await client.call(chosen, { any: 'input' });
  await client.call('github__create_issue', { any: 'input' });
  const [ours] = await client.tools();
  ours?.decision satisfies 'allow' | 'ask' | 'deny' | undefined;
  const [openai] = await client.tools('openai');
  openai?.parameters;
  openai?.input_schema;
  const [anthropic] = await client.tools('anthropic', { tools: 'all' });
  anthropic?.input_schema;
  anthropic?.parameters;
  await client.tools('cobol');
  toToolMessage('anthropic', 'toolu_1', result).tool_use_id satisfies string;
  toToolMessage('openai', 'call_1', result).tool_use_id;
  const restored: readonly string[] = (await client.undo('c', { force: true })).restored;
  const cancelled: boolean = await client.cancel('c');
  using watch = await client.onApproval((approval) => (approval.tool === 'x' ? { decision: 'approve' } : undefined));
  await client.onApproval(() => ({ decision: 'perhaps' }));
  return { restored, cancelled, watch };
}
`;

/** The snippets of docs/how-to/client.md, each as a module; adds a client to those without one. */
const SNIPPETS = [
  ...readFileSync(join(repository, 'docs/how-to/client.md'), 'utf8').matchAll(/^```ts\n([\s\S]*?)^```/gm),
]
  .map((it) => it[1] as string)
  .map((it) =>
    it.includes('createClient(')
      ? it
      : `import type { Client } from 'ringfence/client';\ndeclare const client: Client;\n${it}export {};\n`,
  );

let errors: string[];
beforeAll(() => {
  const programs = { 'program.ts': PROGRAM, ...Object.fromEntries(SNIPPETS.map((it, at) => [`doc-${at}.ts`, it])) };
  for (const [name, text] of Object.entries(programs)) writeFileSync(join(folder, name), text);
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
  const options = {
    extends: join(repository, 'tsconfig.json'),
    compilerOptions: {
      typeRoots: [join(repository, 'node_modules/@types')],
      paths: { 'ringfence/client': [join(repository, 'src/entries/client.ts')] },
    },
    include: [],
    files: Object.keys(programs),
  };
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(options));
  const tsc = join(repository, 'node_modules/.bin/tsc');
  const { stdout } = spawnSync(tsc, ['-p', folder, '--pretty', 'false'], { cwd: folder, encoding: 'utf8' });
  errors = stdout.split('\n').filter((it) => /error TS/.test(it));
}, 60_000);

test('the snippets of docs/how-to/client.md compile', () => {
  expect(SNIPPETS.length).toBe(6);
  expect(errors.filter((it) => it.startsWith('doc-'))).toEqual([]);
});

/** The distinct lines of the program with errors. */
const refused = (): string[] => {
  const lines = PROGRAM.split('\n');
  const numbers = errors
    .filter((it) => it.startsWith('program'))
    .map((it) => Number(/program\.ts\((\d+),/.exec(it)?.[1]));
  return [...new Set(numbers)].map((it) => lines[it - 1]?.trim() ?? `no line ${it}: ${errors.join('\n')}`);
};

test('exactly the wrong names, parameters, results and formats do not compile', () => {
  expect(refused()).toEqual([
    "await client.call('file_reed', {});",
    "await client.call('file_read', { pth: 'a' });",
    "await client.call('file_read', { path: 1 });",
    'if (read.success) read.data.nothing;',
    'openai?.input_schema;',
    'anthropic?.parameters;',
    "await client.tools('cobol');",
    "toToolMessage('openai', 'call_1', result).tool_use_id;",
    "await client.onApproval(() => ({ decision: 'perhaps' }));",
  ]);
});
