/** The types of the Python client are those of the tools. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { builtinTools } from '../../../src/tools/builtin.ts';
import { repository } from '../../support/daemon.ts';

const written = readFileSync(`${repository}/clients/python/src/ringfence/_tools.py`, 'utf8');

test('clients/python/src/ringfence/_tools.py is what `npm run gen` writes', () => {
  const script = ['script/gen-python-types.ts', '--print'];
  expect(execFileSync(process.execPath, script, { cwd: repository, encoding: 'utf8' })).toBe(written);
});

test('each tool has a method in both clients, and its parameters are those of its schema', () => {
  for (const name of Object.keys(builtinTools))
    expect(written.split('\n').filter((it) => it.includes(`def ${name}(self, `))).toHaveLength(2);
  expect(written).toContain(
    [
      'class FileReadInput(TypedDict, total=False):',
      '    path: Required[str]',
      '    startLine: int',
      '    endLine: int',
      '    maxLines: int',
      '    encoding: Literal["utf-8", "ascii", "latin1", "base64"]',
      '    details: bool',
    ].join('\n'),
  );
});
