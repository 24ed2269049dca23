/** The whole suite runs in its small form, so that no bench is broken when needed; docs/benchmarks.md reports its findings. */
import { execFile } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { toMarkdown } from '../../bench/report.ts';
import { here, type Results, readJson } from '../../bench/results.ts';
import { temporaryDir } from '../support/daemon.ts';

const names = readdirSync(here('subjects')).map((it) => it.replace(/\.ts$/, ''));
const folder = temporaryDir('bench');
afterAll(() => rmSync(folder, { recursive: true }));

/** A soak that hangs is ended before the test is, so that its output is shown. */
const SOAK = { timeout: 120_000, maxBuffer: 2 ** 24 };

let results: Results;
let said: string;
beforeAll(async () => {
  const file = join(folder, 'results.json');
  const suite = promisify(execFile)(process.execPath, [here('suite.ts'), '--small', '--compare', '--json', file]);
  said = await suite.then(
    ({ stdout }) => stdout,
    ({ stdout, stderr }: { stdout: string; stderr: string }) => stdout + stderr,
  );
  results = readJson(file);
}, 300_000);

test.each(names)('the bench %s finds figures, all of them numbers', (name) => {
  const { failed, figures = [], skipped = [] } = results.benches[name] ?? {};
  expect(failed).toBeUndefined();
  expect(figures.length + skipped.length).toBeGreaterThan(0);
  for (const { name: figure, value, over } of figures)
    expect([figure, Number.isFinite(value), Number.isFinite(over?.ratio.median ?? 0)]).toEqual([figure, true, true]);
});

test('the suite says that it measures the built code', () => {
  expect(said).toMatch(/^measures the built code, dist\/ of \d{4}-/m);
});

test('no figure takes more than twice as many floors as in bench/baseline.json, even when measured again', () => {
  expect(said).toMatch(/^\d+ ratios moved beyond their noise/m);
  expect(said.match(/^WORSE.*$/gm) ?? []).toEqual([]);
});

test('the soak reports what grew, and calls that went on', async () => {
  const file = join(folder, 'soak.json');
  const args = [here('soak.ts'), '--minutes', '0.1', '--json', file];
  // Such a short run sees the warm-up, which is no leak, but may be reported as one.
  const { stdout, stderr, code } = await promisify(execFile)(process.execPath, args, SOAK).then(
    (it) => ({ ...it, code: 0 }),
    (error: { stdout: string; stderr: string; code: number | null }) => error,
  );
  // It also holds the end of the daemons' log.
  const output = `exit code ${code}\n${stdout}\n${stderr}`;
  expect([0, 1], output).toContain(code);
  expect(existsSync(file), output).toBe(true);
  const { soak } = readJson<Results>(file).benches;
  expect(soak?.figures.map((it) => it.name)).toContain('rss, surely grown after the warm-up');
  expect(soak?.pictures[0]?.title, output).toMatch(/: [1-9]\d* calls/);
}, 150_000);

test('a report takes what was measured into the page once, and keeps the rest of it', () => {
  const [page = '', notes = ''] = ['../docs/benchmarks.md', 'notes.md'].map((it) => readFileSync(here(it), 'utf8'));
  const written = toMarkdown(results, page, notes);
  expect(toMarkdown(results, written, notes)).toBe(written);
  for (const { title } of Object.values(results.benches)) expect(written).toContain(`\n## ${title}\n`);
  const kept = /^## The long run\n[\s\S]*?(?=^## )/m.exec(page)?.[0] as string;
  expect(written).toContain(kept);
});
