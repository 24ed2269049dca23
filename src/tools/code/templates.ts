/**
 * Templates of files: `{{name}}` and `{{name | pascal}}` in paths and contents stand for parameters. A template holds no
 * code and no conditions, so that whoever reads it knows what it makes.
 */
import { ToolError } from '../../base/errors.ts';

const PLACE = /\{\{\s*([A-Za-z][A-Za-z0-9_]*)\s*(?:\|\s*([A-Za-z]+)\s*)?\}\}/g;

/** The words of a name in any case: `parseHTMLPage`, `parse-html-page` and `Parse html page` have the same three. */
const wordsOf = (name: string): string[] =>
  name
    .replaceAll(/(\p{Ll}|\p{N})(\p{Lu})/gu, '$1 $2')
    .replaceAll(/(\p{Lu})(\p{Lu}\p{Ll})/gu, '$1 $2')
    .split(/[^\p{L}\p{N}]+/u)
    .filter((it) => it !== '')
    .map((it) => it.toLowerCase());

const capital = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1);

const CASES: ReadonlyMap<string, (name: string) => string> = new Map([
  [
    'camel',
    (name: string) =>
      wordsOf(name)
        .map((it, at) => (at === 0 ? it : capital(it)))
        .join(''),
  ],
  ['pascal', (name: string) => wordsOf(name).map(capital).join('')],
  ['kebab', (name: string) => wordsOf(name).join('-')],
  ['snake', (name: string) => wordsOf(name).join('_')],
  ['constant', (name: string) => wordsOf(name).join('_').toUpperCase()],
]);

export interface TemplateFile {
  /** Below the folder of the template. */
  readonly path: string;
  readonly text: string;
}

/** Built-in templates; a template of the workspace with the same name replaces one. */
export const BUILT_IN: ReadonlyMap<string, readonly TemplateFile[]> = new Map([
  [
    'typescript-module',
    [
      { path: '{{name | kebab}}.ts', text: 'export function {{name | camel}}(): void {}\n' },
      {
        path: '{{name | kebab}}.test.ts',
        text: [
          "import { expect, test } from 'vitest';",
          "import { {{name | camel}} } from './{{name | kebab}}.ts';",
          '',
          "test('{{name | camel}} returns nothing', () => {",
          '  expect({{name | camel}}()).toBeUndefined();',
          '});',
          '',
        ].join('\n'),
      },
    ],
  ],
  [
    'python-module',
    [
      { path: '{{name | snake}}.py', text: 'def {{name | snake}}() -> None:\n    pass\n' },
      {
        path: 'test_{{name | snake}}.py',
        text: 'from {{name | snake}} import {{name | snake}}\n\n\ndef test_{{name | snake}}():\n    assert {{name | snake}}() is None\n',
      },
    ],
  ],
]);

/** Fills parameters in. Throws INPUT_INVALID for a name without a parameter, and for an unknown case. */
export function fillIn(text: string, parameters: Readonly<Record<string, string>>): string {
  return text.replaceAll(PLACE, (place: string, name: string, filter: string | undefined) => {
    const value = Object.hasOwn(parameters, name) ? parameters[name] : undefined;
    if (value === undefined)
      throw new ToolError('INPUT_INVALID', `the template needs the parameter \`${name}\``, {
        suggestion: `Add it to parameters; given are: ${Object.keys(parameters).join(', ') || 'none'}.`,
      });
    if (filter === undefined) return value;
    const inCase = CASES.get(filter);
    if (inCase && wordsOf(value).length > 0) return inCase(value);
    if (inCase) throw new ToolError('INPUT_INVALID', `the parameter \`${name}\` has no word to use as \`${filter}\``);
    throw new ToolError('INPUT_INVALID', `the template uses an unknown case: \`${place}\``, {
      suggestion: `Cases are: ${[...CASES.keys()].join(', ')}.`,
    });
  });
}

/** The path of a file that is made. Throws INPUT_INVALID if a parameter would lead it elsewhere. */
export function fillPath(path: string, parameters: Readonly<Record<string, string>>): string {
  const segments = path.split('/').map((it) => fillIn(it, parameters));
  const wrong = segments.find((it) => it === '' || it === '.' || it === '..' || /[/\\\0]/.test(it));
  if (wrong === undefined) return segments.join('/');
  throw new ToolError('INPUT_INVALID', `a parameter makes \`${wrong}\` of a file name in \`${path}\``, {
    suggestion: 'File names are not empty, not `..`, and hold no slash.',
  });
}
