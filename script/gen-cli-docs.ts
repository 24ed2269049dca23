// Writes docs/verbs.md, the help of every verb as the program prints it. `npm run gen` runs it.
import { writeFileSync } from 'node:fs';
import type { Command } from 'commander';
import { verbs } from './verb-list.ts';

/** The help of a command, as it is on a terminal of 100 columns. */
function helpOf(command: Command): string {
  const texts: string[] = [];
  command.configureOutput({
    writeOut: (it) => void texts.push(it),
    getOutHelpWidth: () => 100,
    getOutHasColors: () => false,
  });
  command.outputHelp();
  return texts.join('').trimEnd();
}

/** Flags that nearly every verb has, with the same meaning; the page tells them once. */
const COMMON =
  /^ {2}(-h, --help +display help for command|--json +print only JSON|--socket <path> +the daemon's socket|--state <dir> +the daemon's state directory|--no-autostart +fail rather than start a daemon|--workspace <dir> +the folder(?: to work in)? \(default: this one\)|--dir <folder> +the fleet's folder \(default: ~\/\.config\/ringfence\/fleet\))$/;

/** The help of a verb without the flags that nearly all have, and without a heading of flags that then has none. */
function ownHelpOf(verb: Command): string {
  const lines = helpOf(verb)
    .split('\n')
    .filter((it) => !COMMON.test(it))
    .join('\n');
  const own = lines
    .replace(/^Usage: /, '')
    .replace(/\n\nOptions:(?=\n\n|$)/, '')
    .trimEnd();
  return /^ {2}-/m.test(own) ? own : own.replace(' [options]', '');
}

const sections = verbs.map(
  ([name, verb]) => `## ${name.replace('ringfence ', '')}\n\n\`\`\`text\n${ownHelpOf(verb)}\n\`\`\`\n`,
);

const text = `<!-- Written by \`npm run gen\` from src/cli/verbs. -->
# Verbs

Every verb and its flags, as \`ringfence VERB --help\` prints them; \`ringfence --help\` lists them by what they are for.
Left out are flags that many take: \`--help\`, \`--json\` (print only JSON), \`--socket PATH\` and \`--state DIR\` (the
daemon's), \`--no-autostart\` (fail rather than start a daemon), \`--workspace DIR\` (this folder by default), and
\`--dir FOLDER\` of \`fleet\` (\`~/.config/ringfence/fleet\` by default). [The command line](command-line.md) says what
holds for all: exit codes, output, ids, input.

${sections.join('\n')}`;

if (process.argv.includes('--print')) process.stdout.write(text);
else writeFileSync(new URL('../docs/verbs.md', import.meta.url), text);
