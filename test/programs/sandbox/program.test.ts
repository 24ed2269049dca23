/** Programs with arguments in the sandbox of commands: no shell parses these, and a read-only sandbox allows only reading. */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { defaultLimits as limits } from '../../../src/base/limits.ts';
import { systemPowers } from '../../../src/base/powers.ts';
import { runCommand } from '../../../src/sandbox/command/command.ts';
import type { CommandRequest, CommandSetup } from '../../../src/sandbox/command/request.ts';
import { NO_MASKS } from '../../../src/sandbox/masks.ts';
import { commandSetupOf } from '../../support/command-setup.ts';

const powers = systemPowers();
let folder: string;
let workspace: string;
let setup: CommandSetup;
beforeAll(async () => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'ringfence-program-')));
  workspace = join(folder, 'ws');
  mkdirSync(join(workspace, 'held'), { recursive: true });
  writeFileSync(join(workspace, 'held/a'), 'old');
  setup = await commandSetupOf(workspace, folder, powers);
});
afterAll(() => rmSync(folder, { recursive: true }));

function run(argv: readonly string[], rest: Partial<CommandRequest> = {}) {
  const bounds = { ...limits.commandMax, outputBytes: 65_536 };
  const { signal } = new AbortController();
  const request = {
    command: '',
    argv,
    cwd: workspace,
    env: {},
    workspace,
    masks: NO_MASKS,
    bounds,
    signal,
    captureBytes: 65_536,
  };
  return runCommand({ ...request, ...rest }, setup, powers);
}

test('every word reaches the program as it is, whatever a shell would make of it', async () => {
  const word = fc.oneof(
    fc.constantFrom(
      '$(touch x)',
      '`id`',
      '; touch x',
      '-n',
      '--',
      '*',
      "it's",
      '"',
      '\\',
      '\n',
      '',
      '${PATH}',
      '~',
      '!!',
    ),
    fc.string({ unit: 'grapheme', maxLength: 20 }).filter((it) => !it.includes('\0')),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(word, { minLength: 1, maxLength: 6 }), async (words) => {
      const { captured, exitCode } = await run(['/usr/bin/printf', '%s\\0', ...words]);
      expect(exitCode).toBe(0);
      expect(captured?.toString()).toBe(words.map((it) => `${it}\0`).join(''));
    }),
    { numRuns: 15 },
  );
  expect(existsSync(join(workspace, 'x'))).toBe(false);
}, 30_000);

test('a read-only program changes nothing in the workspace, not even below a pinned folder', async () => {
  const masks = { hidden: [], readOnly: [], pinned: ['held'] };
  for (const script of [
    'echo new > a',
    'echo new > held/a',
    'rm -r held',
    'mkdir b',
    'chmod 777 held',
    'mount -o remount,rw .',
  ]) {
    const { exitCode } = await run(['/bin/sh', '-c', script], { readOnly: true, masks });
    expect(exitCode, script).not.toBe(0);
  }
  expect(readFileSync(join(workspace, 'held/a'), 'utf8')).toBe('old');
  expect(existsSync(join(workspace, 'a'))).toBe(false);
  expect((await run(['/bin/sh', '-c', 'echo new > a'], { masks })).exitCode).toBe(0);
  expect(existsSync(join(workspace, 'a'))).toBe(true);
});

test('output is taken from its start, and the program ended when there is more', async () => {
  const endless = await run(['/usr/bin/yes'], { captureBytes: 10_000 });
  expect(endless).toMatchObject({ ended: 'output', exitCode: undefined });
  expect(endless.captured?.toString()).toBe('y\n'.repeat(5_000));
  expect((await run(['/bin/cat'], { stdin: 'é\n' })).captured?.toString()).toBe('é\n');
});

test('the limits of a program are set before it starts', async () => {
  const { captured } = await run(['/bin/sh', '-c', 'ulimit -f']);
  // In blocks of 512 bytes.
  expect(captured?.toString().trim()).toBe(`${limits.commandMax.fileMb * 2048}`);
});
