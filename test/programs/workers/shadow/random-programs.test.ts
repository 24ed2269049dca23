/** Random programs, undone one after another, restore each tree that was there before. */
import * as fs from 'node:fs';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ShadowBench } from '../../../support/shadow.ts';
import { treeWithModes } from '../../../support/workspace.ts';

const name = fc.constantFrom('a', 'b', 'c');
const path = fc.array(name, { minLength: 1, maxLength: 3 }).map((it) => it.join('/'));
const kinds = [
  'write',
  'append',
  'rm',
  'mkdir',
  'mv',
  'link',
  'symlink',
  'chmod',
  'replace',
  'truncate',
  'file',
] as const;
const step = fc.record({
  kind: fc.constantFrom(...kinds),
  from: path,
  to: path,
  text: fc.string({ maxLength: 6 }),
  mode: fc.constantFrom(0o600, 0o644, 0o700, 0o755, 0o500, 0o111),
});
type Step = (typeof step)['generate'] extends (...args: never[]) => { value: infer S } ? S : never;

/** One step of a program, as a program would take it: a failure changes nothing, or what it had changed by then. */
function take(bench: ShadowBench, { kind, from, to, text, mode }: Step): void {
  const [a, b] = [bench.at(from), bench.at(to)];
  try {
    if (kind === 'write') fs.writeFileSync(a, text, { mode });
    else if (kind === 'append') fs.appendFileSync(a, text);
    else if (kind === 'rm') fs.rmSync(a, { recursive: true, force: true });
    else if (kind === 'mkdir') fs.mkdirSync(a, { recursive: true });
    else if (kind === 'mv') fs.renameSync(a, b);
    else if (kind === 'link') fs.linkSync(a, b);
    else if (kind === 'symlink') fs.symlinkSync(text === '' ? 'a' : text.replaceAll('\0', ''), a);
    else if (kind === 'chmod') fs.chmodSync(a, mode);
    else if (kind === 'truncate') fs.truncateSync(a, 1);
    else if (kind === 'file') {
      fs.rmSync(a, { recursive: true, force: true });
      fs.writeFileSync(a, text);
    } else {
      fs.writeFileSync(`${a}.new`, text);
      fs.renameSync(`${a}.new`, a);
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === undefined) throw error;
  }
}

test('200 random programs', { timeout: 300_000 }, async () => {
  const programs = fc.array(fc.array(step, { minLength: 1, maxLength: 10 }), { minLength: 1, maxLength: 3 });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 12 }), programs, fc.boolean(), async (start, all, isTracked) => {
      using bench = new ShadowBench();
      for (const it of start) take(bench, it);
      if (isTracked) bench.sh('git init -q . && git add -A . 2>/dev/null; git commit -qm first 2>/dev/null || true');
      await bench.build();
      const tree = () => treeWithModes(bench.ws.path);
      const done: { key: string; paths: readonly string[]; before: object }[] = [];
      for (const [index, program] of all.entries()) {
        const before = tree();
        if ((await bench.begin(index)) !== 'ready') throw new Error(bench.shadow.state);
        for (const it of program) take(bench, it);
        const key = bench.newKey();
        const report = await bench.end(index, key);
        if (report === 'lost') throw new Error('lost');
        if (!report) expect(tree()).toEqual(before);
        else {
          expect(report).toMatchObject({ undo: 'full', missing: [] });
          done.push({ key, paths: report.paths, before });
        }
      }
      for (const { key, paths, before } of done.reverse()) {
        expect(await bench.undo(key, paths)).toMatchObject({ conflicts: [] });
        expect(tree()).toEqual(before);
      }
    }),
    { numRuns: 200 },
  );
});
