/** What a job may replace after an approval. */
import { hash } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { defaultLimits as limits } from '../../../../src/base/limits.ts';
import { systemPowers } from '../../../../src/base/powers.ts';
import type { ToolJob } from '../../../../src/hosts/job.ts';
import { NO_MASKS } from '../../../../src/sandbox/masks.ts';
import { Anchor } from '../../../../workers/context/anchor.ts';
import { WorkerContext } from '../../../../workers/context/context.ts';

let workspace: string;
beforeEach(() => {
  workspace = realpathSync(mkdtempSync(join(tmpdir(), 'ringfence-context-')));
});
afterEach(() => rmSync(workspace, { recursive: true }));

function write(path: string, preImages?: ToolJob['preImages']) {
  const context = new WorkerContext({
    workspace,
    anchor: new Anchor(workspace, limits),
    view: { key: '', rules: [], home: '' },
    masks: NO_MASKS,
    limits,
    powers: systemPowers(),
    signal: new AbortController().signal,
    ...(preImages && { preImages }),
  });
  using target = context.target(path, { createDirs: true });
  return target.replace(Buffer.from('new'), { overwrite: true });
}
const hashOf = (text: string) => `sha256:${hash('sha256', text, 'hex')}`;

test.each<[string, string | undefined, ToolJob['preImages']]>([
  ['other content', 'changed', [{ path: 'a', hash: hashOf('old') }]],
  ['a file where there was none', 'made meanwhile', [{ path: 'a', hash: null }]],
  ['none where there was a file', undefined, [{ path: 'a', hash: hashOf('old') }]],
  ['a file that was not shown', 'old', [{ path: 'b', hash: hashOf('old') }]],
])('an approved write finds %s and leaves everything as it is', (_, found, preImages) => {
  if (found !== undefined) writeFileSync(join(workspace, 'a'), found);
  expect(() => write('a', preImages)).toThrow(expect.objectContaining({ code: 'APPROVAL_STALE' }));
  expect(readdirSync(workspace)).toEqual(found === undefined ? [] : ['a']);
  if (found !== undefined) expect(readFileSync(join(workspace, 'a'), 'utf8')).toBe(found);
});

test('an approved write replaces what was shown, and one that nobody was asked about whatever is there', () => {
  writeFileSync(join(workspace, 'a'), 'old');
  write('a', [{ path: 'a', hash: hashOf('old') }]);
  expect(readFileSync(join(workspace, 'a'), 'utf8')).toBe('new');
  writeFileSync(join(workspace, 'a'), 'other');
  write('a');
  expect(readFileSync(join(workspace, 'a'), 'utf8')).toBe('new');
});
