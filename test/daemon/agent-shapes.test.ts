/**
 * The code tools under the names, parameters and results that agents' documentation gives them, through a real daemon.
 * A result may hold more than these shapes.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import * as z from 'zod';
import type { Client } from '../../src/client/client.ts';
import { type OpenDaemon, openDaemon } from '../support/daemon.ts';

let daemon: OpenDaemon;
let client: Client;
beforeAll(async () => {
  daemon = await openDaemon();
  client = await daemon.connect();
  mkdirSync(join(daemon.workspace, 'lib'));
  for (const [path, text] of Object.entries(FILES)) writeFileSync(join(daemon.workspace, path), text);
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
  await daemon[Symbol.asyncDispose]();
});

const FILES = {
  'lib/area.ts': 'export function area(side) {\n  return side * side;\n}\n',
  'lib/use.ts':
    "import { area } from './area.ts';\nexport const text: string = area(2).toFixed();\nexport const n: string = 1;\n",
  'lib/tsconfig.json': JSON.stringify({
    compilerOptions: { noEmit: true, module: 'nodenext', allowImportingTsExtensions: true, strict: false },
  }),
};

const answer = async (name: string, input: object) => {
  const result = await client.call(name as string, input as never);
  if (!result.success) throw new Error(`${name}: ${result.error.code}: ${result.error.message}`);
  return result.data as unknown;
};

const PARSED = z.object({
  ast: z.array(z.object({ kind: z.string() })).min(1),
  errors: z.array(z.object({ line: z.number(), message: z.string() })),
  imports: z.array(z.object({ module: z.string() })),
  exports: z.array(z.object({ name: z.string() })),
});
const CODE = "import { a } from './a.ts';\nexport const b = <T,>(it: T) => a(it);\n";

test.each([
  ['parse_typescript', { code: CODE }],
  ['parse_typescript', { code: CODE.replace('<T,>(it: T)', '(it) => <b>{it}</b>, c = (it)'), filePath: 'src/b.tsx' }],
  ['analyze_ast', { code: CODE }],
])('%s gives the tree, errors, imports and exports of %o', async (name, input) => {
  const { errors, imports, exports } = PARSED.parse(await answer(name, input));
  expect(errors).toEqual([]);
  expect(imports.map((it) => it.module)).toEqual(['./a.ts']);
  expect(exports.map((it) => it.name)).toContain('b');
});

test('parse_typescript tells the line of an error', async () => {
  const { errors } = PARSED.parse(await answer('parse_typescript', { code: 'let a = 1;\nlet = ;\n' }));
  expect(errors[0]?.line).toBe(2);
});

test('type_check is strict unless told otherwise, and gives success, errors and warnings', async () => {
  const shape = z.object({
    success: z.boolean(),
    errors: z.array(z.object({ file: z.string(), line: z.number(), column: z.number(), message: z.string() })),
    warnings: z.array(z.object({ file: z.string(), message: z.string() })),
  });
  const strict = shape.parse(await answer('type_check', { projectPath: 'lib' }));
  expect(strict.success).toBe(false);
  expect(strict.errors.map((it) => `${it.file}:${it.line}:${it.column}`)).toEqual([
    'lib/area.ts:1:22',
    'lib/use.ts:3:14',
  ]);
  const loose = shape.parse(await answer('type_check', { projectPath: 'lib/tsconfig.json', strict: false }));
  expect(loose.errors.map((it) => it.file)).toEqual(['lib/use.ts']);
});

test('refactor_code takes a path, and a transformation by name or with its parameters', async () => {
  expect(await answer('refactor_code', { path: 'lib/use.ts', transformation: 'organize_imports' })).toMatchObject({
    files: [],
  });
  const rename = { operation: 'rename', symbol: 'area', newName: 'surface', preview: true };
  expect(await answer('refactor_code', { path: 'lib/area.ts', transformation: rename })).toMatchObject({
    files: [{ path: 'lib/area.ts' }, { path: 'lib/use.ts' }],
    newErrors: [],
  });
});

test('code_refactor takes the parameters of an operation in `params`, and none of them twice', async () => {
  const params = { symbol: 'area', newName: 'surface', preview: true };
  expect(await answer('code_refactor', { path: 'lib/area.ts', operation: 'rename', params })).toMatchObject({
    files: [{ path: 'lib/area.ts' }, { path: 'lib/use.ts' }],
  });
  const twice = { path: 'lib/area.ts', operation: 'rename', newName: 'plane', params };
  await expect(answer('code_refactor', twice)).rejects.toThrow(/INPUT_INVALID.*params/);
});

test('tools answer to the names of the design documents', async () => {
  const to = { template: 'typescript-module', parameters: { name: 'made' }, to: 'made', preview: true };
  expect(await answer('generate_code', to)).toMatchObject({ template: 'built in' });
  expect(await answer('code_lint', { path: 'lib/area.ts' })).toMatchObject({ totalIssues: 0 });
  await expect(answer('websearch', { query: 'bubblewrap' })).rejects.toThrow('UNSUPPORTED');
  await expect(answer('npm_install', { package: '../x', projectPath: '.' })).rejects.toThrow(/INPUT_INVALID.*package/);
});

test('code_dependencies reads the lockfile of the package manager that is named', async () => {
  const lock = '[[package]]\nname = "x"\nversion = "0.1.0"\ndependencies = ["anyhow"]\n';
  const dependency = '[[package]]\nname = "anyhow"\nversion = "1.0.80"\nsource = "registry+https://crates.io"\n';
  writeFileSync(join(daemon.workspace, 'Cargo.lock'), lock + dependency);
  expect(await answer('code_dependencies', { action: 'list', packageManager: 'cargo' })).toMatchObject({
    manager: 'cargo',
    dependencies: [{ name: 'anyhow', installed: '1.0.80', direct: true }],
  });
});

test('every code tool counts columns in UTF-16 units: what one gives, another takes', async () => {
  const line =
    '/* 😀𝒳 */ export const inner = eval(String(used)), wrong: string = 2; function used() { debugger; return inner; }';
  const path = 'lib/wide.ts';
  writeFileSync(join(daemon.workspace, path), `${line}\n`);
  const column = (text: string) => line.indexOf(text) + 1;
  expect(await answer('code_parse', { path })).toMatchObject({
    symbols: [{ name: 'inner', column: column('inner') }, { name: 'wrong', column: column('wrong') }, { name: 'used' }],
  });
  const { functions } = ((await answer('code_analyze', { path })) as { complexity: { functions: object[] } })
    .complexity;
  expect(functions).toMatchObject([{ name: 'used', column: column('function used') }]);
  expect(await answer('code_analyze', { path, checks: ['security'] })).toMatchObject({
    security: [{ column: column('eval') }],
  });
  expect(await answer('code_lint', { paths: [path], engine: 'builtin' })).toMatchObject({
    issues: expect.arrayContaining([
      expect.objectContaining({ rule: 'eslint(no-debugger)', column: column('debugger') }),
    ]),
  });
  for (const input of [{ files: [path] }, { project: 'lib' }])
    expect(await answer('code_type_check', input)).toMatchObject({
      errors: expect.arrayContaining([expect.objectContaining({ file: path, column: column('wrong') })]),
    });
  const found = (await answer('workspace_find_references', { symbol: 'inner', file: path })) as {
    references: { line: number; column: number }[];
  };
  expect(found.references.map((it) => it.column)).toEqual([column('inner'), column('inner; }')]);
  const { line: row, column: at } = found.references[1] as { line: number; column: number };
  await answer('code_refactor', { operation: 'rename', path, line: row, column: at, newName: 'outer' });
  expect(readFileSync(join(daemon.workspace, path), 'utf8')).toBe(`${line.replaceAll('inner', 'outer')}\n`);
});

test('refactor_code names what is wrong with a transformation', async () => {
  const wrong = await client.call(
    'refactor_code' as string,
    { path: 'lib/area.ts', transformation: 'shuffle' } as never,
  );
  expect(wrong).toMatchObject({ success: false, error: { code: 'INPUT_INVALID' } });
  expect(wrong.success || wrong.error.message).toMatch(/transformation.*organize_imports/s);
});
