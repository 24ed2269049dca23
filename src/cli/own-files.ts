/** Changes to files of the person: shown as a diff, and confirmed. */
import { createInterface } from 'node:readline/promises';
import { defaultLimits } from '../base/limits.ts';
import { unifiedDiff } from '../tools/edit/diff.ts';
import { harmless, print, say, UsageError } from './output.ts';

/** Prints the change of a file; `after` is undefined if the file would be removed. */
export async function showChange(path: string, before: string | undefined, after: string | undefined): Promise<void> {
  const [old, fresh] = [before, after ?? ''].map((it) => (it === undefined ? undefined : Buffer.from(it)));
  const diff = await unifiedDiff(path.slice(1), { before: old, after: fresh as Buffer }, defaultLimits);
  print(harmless(diff ?? `${path} would be:\n${after ?? '(deleted)'}`));
}

/** Asks the person for confirmation. Throws UsageError if there is no terminal, since no program may decide this unseen. */
export async function mayChange(what: string, { yes }: { readonly yes?: boolean }): Promise<boolean> {
  if (yes) return true;
  if (!process.stdin.isTTY)
    throw new UsageError('nothing was changed: there is no terminal to ask at; add --yes to write without asking');
  const isWanted = /^y(es)?$/i.test(await askPerson(`Write this to ${harmless(what)}? [y/n] `));
  if (!isWanted) say('nothing was changed');
  return isWanted;
}

/** What the person types after a question at the terminal. */
export async function askPerson(question: string): Promise<string> {
  const lines = createInterface({ input: process.stdin, output: process.stderr });
  try {
    return (await lines.question(question)).trim();
  } finally {
    lines.close();
  }
}
