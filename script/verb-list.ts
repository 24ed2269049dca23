// The verbs of the command line with their full names, for what is written from them.
import type { Command } from 'commander';
import { createProgram } from '../src/cli/verbs/program.ts';

/** A command and all below it, with their full names. */
const withVerbs = (command: Command, name: string): [name: string, command: Command][] => [
  [name, command],
  ...command.commands.flatMap((it) => withVerbs(it, `${name} ${it.name()}`)),
];

export const { program } = createProgram({});

/** Verbs that do something; those that only group others are left out. */
export const verbs = withVerbs(program, 'ringfence')
  .slice(1)
  .filter(([name, { commands }]) => commands.length === 0 && !name.endsWith(' help'));
