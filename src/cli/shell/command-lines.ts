/** Splits what is typed or piped into a shell into complete commands. Pure. */
import { parse } from 'unbash';

/** Whether more lines must follow before bash would run the text: an open quote, loop, pipe or here-document. */
export function isIncomplete(text: string): boolean {
  if (/(?<!\\)(?:\\\\)*\\\n?$/.test(text)) return true;
  if (hasOpenHereDocument(text)) return true;
  const errors = parse(text).errors ?? [];
  return errors.some((it) => /unterminated|to close|expected command/.test(it.message));
}

function hasOpenHereDocument(text: string): boolean {
  const lines = text.split('\n');
  return lines.some((line, index) =>
    [...line.matchAll(/<<(-?)\s*(["']?)(\w+)\2/g)].some(([, dash, , word]) => {
      const ends = (it: string) => (dash === '-' ? it.replace(/^\t+/, '') : it) === word;
      return !line.includes('<<<') && !lines.slice(index + 1).some(ends);
    }),
  );
}

/** Words by which a command may change the folder or the exported variables of its shell. */
const CHANGES_SHELL =
  /(?:^|[\s;&|({])(?:cd|pushd|popd|export|declare|typeset|readonly|unset|source|\.|eval|[A-Za-z_]\w*\+?=\S*)(?:[\s;&|)}]|$)/m;

/** Whether what a shell keeps may be different after the command. */
export const mayChangeShell = (command: string): boolean => CHANGES_SHELL.test(command);
