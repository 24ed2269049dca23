/**
 * Ends the journal of a command, its undo, the commit of a preview and the undo of that at each file system call that changes
 * something, as a kill -9 does: the files are old or new, and what was begun is taken back and can be done again.
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, lstatSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { type Overlay, PREVIEW_PARTS } from '../../src/sandbox/command/overlay.ts';
import type { CommitOutcome } from '../../src/tools/context/kept-changes.ts';
import { Spool } from '../../workers/undo/spool.ts';
import { cutOffAt } from '../support/cut-off.ts';
import { temporaryDir } from '../support/daemon.ts';
import { ShadowBench } from '../support/shadow.ts';
import { treeWithModes } from '../support/workspace.ts';

const COMMAND = [
  'echo new >> d/1; sed -i s/first/FIRST/ text; chmod 600 d/2',
  'rm gone; rm -r old; mkdir made; echo x > made/x; ln -sf 1 d/link; chmod 700 d',
].join('; ');
const TEXT = 'first\na\nb\nc\nd\nlast\n';
/** Fewer calls would mean that the work was not reached. */
const CALLS_MIN = 10;
const DONE = { conflicts: [], merged: ['text'] };
const CHANGES = { ofChanges: true };

class Bench extends ShadowBench {
  constructor() {
    super();
    for (const it of ['d', 'old/deep']) mkdirSync(this.at(it), { recursive: true });
    for (const it of ['d/1', 'd/2', 'd/link', 'gone', 'old/a', 'old/deep/b']) writeFileSync(this.at(it), `${it}\n`);
    writeFileSync(this.at('text'), TEXT);
    chmodSync(this.at('old/a'), 0o755);
  }

  tree = () => treeWithModes(this.ws.path);

  /** What the next daemon does with a call that was cut off. */
  rollBack = (key: string) => this.ws.context().rollBack(new Spool(this.folder, key));
}

/** What a command leaves in its overlay, as a folder with all that the merged tree has. */
class Preview implements Disposable {
  readonly #folder: string;
  readonly #bench: Bench;
  readonly #paths: readonly string[];

  private constructor(bench: Bench, folder: string, paths: readonly string[]) {
    this.#bench = bench;
    this.#folder = folder;
    this.#paths = paths;
  }

  static async of(bench: Bench): Promise<Preview> {
    const folder = temporaryDir('preview');
    const [upper, old, list] = (['upper', 'old', 'list'] as const).map((it) => join(folder, PREVIEW_PARTS[it]));
    // By the clock that stamps changes of files, which is behind that of the processor.
    const sinceNs = lstatSync(folder, { bigint: true }).ctimeNs;
    execFileSync('cp', ['-a', bench.ws.path, upper as string]);
    execFileSync('/bin/sh', ['-c', COMMAND], { cwd: upper });
    const overlay = { upper, old, list, merged: upper, sinceNs } as unknown as Overlay;
    const report = await bench.ws.context({ overlay }).previewReport();
    // Meanwhile somebody changes another line.
    writeFileSync(bench.at('text'), TEXT.replace('last', 'LAST'));
    return new Preview(bench, folder, report?.steps.map(({ path }) => path) ?? []);
  }

  async commit(key: string): Promise<CommitOutcome> {
    const journal = { folder: this.#bench.folder, key };
    const context = this.#bench.ws.context({ journal, keptPreview: this.#folder });
    try {
      return await context.kept.commit({ paths: this.#paths, merges: true, force: false });
    } finally {
      context.endJournal();
    }
  }

  [Symbol.dispose](): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

/** The paths of a call's journal. */
const pathsOf = ({ folder }: Bench, key: string): string[] =>
  new Spool(folder, key).entries().map(({ entry }) => entry.path);

// A test that runs out of time would go on behind those that follow, with its file system.
describe('a process killed at any step', { timeout: 240_000 }, () => {
  // What is killed reports that its disk fails.
  beforeEach(() => void vi.spyOn(console, 'error').mockImplementation(() => {}));
  afterEach(() => void vi.restoreAllMocks());

  test("a kill in the journal of a command leaves the command's changes, and a journal that can be read and removed", async () => {
    for (let n = 1; ; n++) {
      using bench = new Bench();
      const before = bench.tree();
      await bench.build();
      await bench.begin(1);
      bench.sh(COMMAND);
      const after = bench.tree();
      const key = bench.newKey();
      const how = await cutOffAt(n, () => bench.end(1, key), CHANGES);
      expect(bench.tree(), `step ${n}`).toEqual(after);
      const paths = pathsOf(bench, key);
      if (how === 'whole') {
        expect((await bench.undo(key, paths)).conflicts).toEqual([]);
        expect(bench.tree()).toEqual(before);
        return expect(n).toBeGreaterThan(CALLS_MIN);
      }
      new Spool(bench.folder, key).remove();
      expect(readdirSync(bench.folder), `step ${n}`).toEqual([]);
    }
  });

  test('a kill in the undo of a command leaves the undo not begun, and it can be done again', async () => {
    for (let n = 1; ; n++) {
      using bench = new Bench();
      const before = bench.tree();
      await bench.build();
      const { key, report } = await bench.command(COMMAND);
      const after = bench.tree();
      const own = bench.newKey();
      const how = await cutOffAt(n, () => bench.undo(key, report?.paths ?? [], { own }), CHANGES);
      if (how === 'cut') await bench.rollBack(own);
      expect(bench.tree(), `step ${n}`).toEqual(how === 'cut' ? after : before);
      expect((await bench.undo(key, report?.paths ?? [])).conflicts).toEqual([]);
      expect(bench.tree(), `again, step ${n}`).toEqual(before);
      if (how === 'whole') return expect(n).toBeGreaterThan(CALLS_MIN);
    }
  });

  test('a kill in the commit of a preview leaves the old state, or the complete new one', async () => {
    for (let n = 1; ; n++) {
      using bench = new Bench();
      using preview = await Preview.of(bench);
      const before = bench.tree();
      const key = bench.newKey();
      let done: CommitOutcome | undefined;
      const how = await cutOffAt(n, async () => (done = await preview.commit(key)), CHANGES);
      if (how === 'cut') {
        await bench.rollBack(key);
        expect(bench.tree(), `step ${n}`).toEqual(before);
        continue;
      }
      expect(done).toMatchObject(DONE);
      const after = bench.tree();
      expect(after).toMatchObject({ text: expect.stringContaining('FIRST') as string });
      expect(after).not.toHaveProperty('gone');
      return expect(n).toBeGreaterThan(CALLS_MIN);
    }
  });

  test('a kill in the undo of a commit leaves the undo not begun, and it can be done again', async () => {
    for (let n = 1; ; n++) {
      using bench = new Bench();
      using preview = await Preview.of(bench);
      const before = bench.tree();
      const key = bench.newKey();
      expect(await preview.commit(key)).toMatchObject(DONE);
      const after = bench.tree();
      const own = bench.newKey();
      const paths = pathsOf(bench, key);
      const how = await cutOffAt(n, () => bench.undo(key, paths, { own }), CHANGES);
      if (how === 'cut') await bench.rollBack(own);
      expect(bench.tree(), `step ${n}`).toEqual(how === 'cut' ? after : before);
      expect((await bench.undo(key, paths)).conflicts).toEqual([]);
      expect(bench.tree(), `again, step ${n}`).toEqual(before);
      if (how === 'whole') return expect(n).toBeGreaterThan(CALLS_MIN);
    }
  });
});
