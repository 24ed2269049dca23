// Writes docs/verbs.md, the help of every verb as the program prints it. `npm run gen` runs it.
import { writeFileSync } from 'node:fs';
import type { Command } from 'commander';
import { program, verbs } from './verb-list.ts';

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

const sections = verbs.map(
  ([name, verb]) => `## ${name.replace('ringfence ', '')}\n\n\`\`\`text\n${helpOf(verb)}\n\`\`\`\n`,
);

const text = `<!-- Written by \`npm run gen\` from src/cli/verbs. -->
# Verbs

Every verb and its flags, as \`ringfence VERB --help\` prints them. [The command line](command-line.md) says what holds
for all of them: exit codes, output, ids, input.

\`\`\`text
${helpOf(program)}
\`\`\`

${sections.join('\n')}`;

if (process.argv.includes('--print')) process.stdout.write(text);
else writeFileSync(new URL('../docs/verbs.md', import.meta.url), text);
