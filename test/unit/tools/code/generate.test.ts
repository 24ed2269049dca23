/** code_generate: what templates make, and that no parameter leads out of the directory. */
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import codeGenerate from '../../../../src/tools/code/generate.ts';
import { fillIn } from '../../../../src/tools/code/templates.ts';
import { ruleOf } from '../../../support/policy.ts';
import { makeWorkspace, type TestWorkspace } from '../../../support/workspace.ts';

let ws: TestWorkspace;
beforeEach(() => {
  ws = makeWorkspace();
});
afterEach(() => ws[Symbol.dispose]());

function put(tree: Record<string, string>): void {
  for (const [path, text] of Object.entries(tree)) {
    mkdirSync(dirname(join(ws.path, path)), { recursive: true });
    writeFileSync(join(ws.path, path), text);
  }
}
const generate = (input: object) =>
  ws.run(codeGenerate, { template: 'part', parameters: { name: 'Big red_button' }, to: 'src', ...input });
const filesOf = (its = ws) => Object.keys(its.tree()).filter((it) => it.startsWith('src'));

test.each([
  ['parseHTMLPage2', 'parseHtmlPage2 ParseHtmlPage2 parse-html-page2 parse_html_page2 PARSE_HTML_PAGE2'],
  ['big red-button', 'bigRedButton BigRedButton big-red-button big_red_button BIG_RED_BUTTON'],
  ['Über größe', 'überGröße ÜberGröße über-größe über_größe ÜBER_GRÖSSE'],
])('the name %s has its words in every case', (name, cases) => {
  const text = '{{name | camel}} {{name|pascal}} {{ name | kebab }} {{name | snake}} {{name | constant}}';
  expect(fillIn(text, { name })).toBe(cases);
});

test('a template of the workspace fills paths and contents, and leaves other braces alone', async () => {
  put({
    '.ringfence/templates/part/{{name | kebab}}/index.ts': 'export const {{name|camel}} = "{{name}}";\n',
    '.ringfence/templates/part/all.css': '.{{name | kebab}} { a: {{{name}}}; b: {{ 1 }} }',
  });
  const preview = await generate({ preview: true });
  expect(filesOf()).toEqual([]);
  expect(preview.files.map((it) => it.path)).toEqual(['src/all.css', 'src/big-red-button/index.ts']);
  expect(await generate({})).toEqual(preview);
  expect(ws.tree()).toMatchObject({
    'src/all.css': '.big-red-button { a: {Big red_button}; b: {{ 1 }} }',
    'src/big-red-button/index.ts': 'export const bigRedButton = "Big red_button";\n',
  });
});

test('a value that looks like a place stays as it is', () => {
  expect(fillIn('{{a}} {{b}}', { a: '{{b}}', b: '$&' })).toBe('{{b}} $&');
});

test.each([['..'], ['../../etc'], ['a/b'], ['.'], [''], ['a\\b']])(
  'the parameter %j makes no file name',
  async (name) => {
    put({ '.ringfence/templates/part/{{name}}': 'x' });
    await expect(generate({ parameters: { name } })).rejects.toMatchObject({ code: 'INPUT_INVALID' });
    expect(filesOf()).toEqual([]);
  },
);

test.each([
  ['a file exists', { to: 'there' }, 'ALREADY_EXISTS'],
  ['a directory lies outside', { to: '../out' }, 'ACCESS_DENIED'],
  ['a directory is a link that leads outside', { to: 'out' }, 'ACCESS_DENIED'],
  ['a parameter is missing', { parameters: {} }, 'INPUT_INVALID'],
  ['there is no such template', { template: 'none' }, 'NOT_FOUND'],
])('nothing is made if %s', async (_, input, code) => {
  put({ '.ringfence/templates/part/a': '{{name}}', '.ringfence/templates/part/b': '', 'there/b': 'mine' });
  symlinkSync('/tmp', join(ws.path, 'out'));
  const before = ws.tree();
  await expect(generate(input)).rejects.toMatchObject({ code });
  expect(ws.tree()).toEqual(before);
});

test('files before a refused one are taken back', async () => {
  using held = makeWorkspace({ rules: [ruleOf('deny', { path: ['src/key.ts'] }, { code: 'SENSITIVE_FILE' })] });
  mkdirSync(join(held.path, '.ringfence/templates/part'), { recursive: true });
  for (const it of ['a.ts', 'key.ts']) writeFileSync(join(held.path, '.ringfence/templates/part', it), 'x');
  await expect(held.run(codeGenerate, { template: 'part', to: 'src' })).rejects.toMatchObject({
    code: 'SENSITIVE_FILE',
  });
  expect(Object.keys(held.tree()).filter((it) => it.endsWith('src/a.ts'))).toEqual([]);
});
