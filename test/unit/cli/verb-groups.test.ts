/** The help of the program: each verb stands in one group, and a first look fits a screen. */
import { expect, test } from 'vitest';
import { createProgram } from '../../../src/cli/verbs/program.ts';

/** The help of the program with the lines of its groups, by heading. */
async function groupsOf(...words: string[]): Promise<Record<string, string[]>> {
  const { program } = createProgram({});
  const texts: string[] = [];
  const writeOut = (it: string) => void texts.push(it);
  program.configureOutput({ writeOut, getOutHelpWidth: () => 80 });
  for (const it of program.commands) it.configureOutput({ writeOut });
  await program.parseAsync(['node', 'ringfence', ...words]).catch(() => {}); // Help ends so.
  const parts = texts
    .join('')
    .split(/^(?=[A-Z][a-z ]+:$)/m)
    .map((it) => it.trimEnd().split('\n'));
  return Object.fromEntries(
    parts.map(([heading = '', ...lines]) => [heading, lines.filter((it) => it.startsWith('  '))]),
  );
}
const isGroup = ([heading]: [string, unknown]) => !/^(Usage|Options|Examples)/.test(heading);
const verbsIn = (groups: Record<string, string[]>): string[] =>
  Object.entries(groups)
    .filter(isGroup)
    .flatMap(([, lines]) => lines.map((it) => it.trim().split(' ')[0] as string));

test('the help shows thirty verbs in eight groups, a line each', async () => {
  const groups = await groupsOf('--help');
  expect(Object.keys(groups).slice(2, 10)).toEqual(
    ['Start', 'Answer', 'Watch', 'Take back', 'Rules', 'Run', 'Extend', 'Operate'].map((it) => `${it}:`),
  );
  expect(verbsIn(groups)).toHaveLength(30);
  expect(
    Object.entries(groups)
      .filter(isGroup)
      .flatMap(([, lines]) => lines)
      .filter((it) => it.length > 80),
  ).toEqual([]);
});

test('the whole help shows every verb, once', async () => {
  const verbs = createProgram({}).program.commands.map((it) => it.name());
  expect([...verbsIn(await groupsOf('help', '--all')), 'help']).toEqual(verbs);
});
