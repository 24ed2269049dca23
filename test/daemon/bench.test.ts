/** The benches run, small, so that they are there when they are wanted. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

test('the bench prints each figure beside its floor', async () => {
  const bench = fileURLToPath(new URL('../../bench/run.ts', import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [bench, '--small']);
  for (const it of [
    'dispatch through a host / echo',
    'terminal_execute true / bare bubblewrap',
    'file_read per second, 32 in flight',
    'idle daemon and three hosts',
  ]) {
    expect(stdout).toMatch(new RegExp(`^${it}.* [\\d.]+$`, 'm'));
  }
}, 60_000);

test.each([
  ['stages', /^permission, a command +p50 [\d.]+ µs$/m],
  ['stages', /^back-test of 10000 calls, [1-9]\d* decided differently: \d+ ms$/m],
  ['decide', /^file call, 500 rules +p50 [\d.]+ µs/m],
  ['audit', /^verify, entries a second +\d+$/m],
  ['search', /^file_glob, \*\*\/\*\.ts +p50 [\d.]+ ms .* ratio [\d.]+$/m],
  ['symbols', /^references +p50 [\d.]+ ms/m],
  ['git', /^git_status \/ bare git and a command +[\d.]+$/m],
  ['orchestration', /^cache hit +p50 [\d.]+ ms$/m],
  ['undo', /^undo of one file by a client, 500 files +p50 [\d.]+ ms$/m],
  ['ends', /^cancel, one process +gone p50 +[\d.]+ ms/m],
  ['redact', /^worst hostile text, ms a MiB +[\d.]+$/m],
  ['layers', /^\| \+ gateway: policy, record, log \| [\d.]+ ms \| [\d.]+ \|$/m],
  ['soak-commands', /^slope, MiB a 1000 commands +-?[\d.]+$/m],
  ['isolates', /^return 1 \+ 1 \/ bare isolated-vm +[\d.]+$[\s\S]+^soak, hosts that were lost +0 in 100 programs$/m],
  ['output', /^zeros +bare pipe +\d+ MB\/s +ours +\d+ MB\/s +\d+ %/m],
])(
  'the bench of %s prints %s',
  async (name, figure) => {
    const bench = fileURLToPath(new URL(`../../bench/${name}.ts`, import.meta.url));
    const { stdout } = await promisify(execFile)(process.execPath, [bench, '--small']);
    expect(stdout).toMatch(figure);
  },
  60_000,
);
