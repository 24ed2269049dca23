import { execFile } from 'node:child_process';
import { appendFileSync, cpSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { dataOf } from '../../test/support/daemon.ts';
import { LINT_CONFIG } from '../../workers/code/lint-rules.ts';
import { type Context, defineBench, type Goal } from '../bench.ts';
import { BareLanguageServer } from '../floors/language-server.ts';
import { makeProject } from '../floors/project.ts';
import { inTurns, median, type Subject } from '../measure.ts';
import { here } from '../results.ts';

const run = promisify(execFile);
const OXLINT = here('../node_modules/oxlint/bin/oxlint');
const RENAMED = { path: 'workers/task-queue.ts', name: 'TaskQueue' };

type BenchClient = Awaited<ReturnType<Context['client']>>;

/** Adds the times of a tool and of the bare program, and what the tool takes beyond it. */
async function beyond(
  bench: Context,
  { tool, bare, work, floor }: { tool: string; bare: string; work: Subject; floor: Subject },
  goal: Goal,
): Promise<void> {
  const turns = { rounds: bench.size(1, 15), times: 1, warmRounds: bench.size(0, 3) };
  const taken = await inTurns({ [bare]: floor, [tool]: work }, turns);
  bench.times(taken, { over: bare });
  const extra = median((taken[tool] ?? []).flat()) - median((taken[bare] ?? []).flat());
  bench.value(`${tool}, beyond ${bare}`, extra, 'ms', goal);
}

async function typesAndRenames(bench: Context, client: BenchClient): Promise<void> {
  using server = await BareLanguageServer.start(client.folder);
  const { path, name } = RENAMED;
  // A change of the file makes each check a new one.
  const touch = () => appendFileSync(join(client.folder, path), '\n');
  const check = { files: [path] };
  await beyond(
    bench,
    {
      tool: 'code_type_check of a changed file',
      bare: 'the language server, a file',
      work: () => {
        touch();
        return dataOf(client.call('code_type_check', check, { cache: false }));
      },
      floor: () => {
        touch();
        return server.diagnose(path);
      },
    },
    { most: 20 },
  );
  const line = 1 + (await lineOf(client, path, name));
  const rename = { operation: 'rename', path, line, symbol: name, newName: `${name}2`, preview: true } as const;
  await beyond(
    bench,
    {
      tool: 'code_refactor rename, shown',
      bare: 'the language server, a rename with diagnostics',
      work: () => dataOf(client.call('code_refactor', rename, { cache: false })),
      floor: () => server.rename(path, { line: line - 1, character: 'export class '.length }, `${name}2`),
    },
    { most: 30 },
  );
}

/** The line, from 0, at which a class is declared. */
async function lineOf(client: BenchClient, path: string, name: string): Promise<number> {
  const { content } = await dataOf(client.call('file_read', { path }));
  return content.split('\n').findIndex((it) => it.startsWith(`export class ${name}`));
}

async function lints(bench: Context, client: BenchClient): Promise<void> {
  const config = join(client.folder, '..', 'oxlint-bench.json');
  writeFileSync(config, JSON.stringify(LINT_CONFIG));
  const paths = ['workers/symbols', 'workers/code'];
  const args = [OXLINT, '-c', config, '--disable-nested-config', '-f', 'json', ...paths];
  await beyond(
    bench,
    {
      tool: 'code_lint of two folders',
      bare: 'oxlint',
      work: () => dataOf(client.call('code_lint', { paths, engine: 'builtin' }, { cache: false })),
      floor: () => run(process.execPath, args, { cwd: client.folder, maxBuffer: 64 << 20 }).catch(() => {}),
    },
    { most: 40 },
  );
}

async function runsTests(bench: Context): Promise<void> {
  const client = await bench.client('code-tests');
  makeProject(client.folder);
  await beyond(
    bench,
    {
      tool: 'code_test of a small project',
      bare: 'node --test',
      work: () => dataOf(client.call('code_test', { runner: 'node' }, { cache: false })),
      floor: () => run(process.execPath, ['--test'], { cwd: client.folder }).catch(() => {}),
    },
    { most: 100 },
  );
}

export default defineBench({
  title: 'Code tools',
  question: 'What do the code tools take beyond the programs that they run?',
  async run(bench) {
    const client = await bench.client('code');
    const copied = bench.small ? ['workers', 'tsconfig.json'] : ['src', 'workers', 'tsconfig.json', 'package.json'];
    // With Node's types the files have no errors, as those of a person mostly have none.
    for (const it of [...copied, '.gitignore', 'node_modules/@types/node', 'node_modules/undici-types'])
      cpSync(here(`../${it}`), join(client.folder, it), { recursive: true });
    await typesAndRenames(bench, client);
    await lints(bench, client);
    await runsTests(bench);
  },
});
