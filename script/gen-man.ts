// Writes the man page of the command line to standard output, from the verbs that docs/verbs.md is written from.
import { readFileSync } from 'node:fs';
import type { Command } from 'commander';
import { program, verbs } from './verb-list.ts';

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  version: string;
};

/** Text as troff shows it unchanged: its own signs escaped, and no line that begins with a request. */
const plain = (text: string): string =>
  text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replaceAll("'", '\\(aq')
    .replaceAll('…', '...')
    .replaceAll('→', '\\(->')
    .split('\n')
    .map((it) => it.trim())
    .filter(Boolean)
    .map((it) => (it.startsWith('.') ? `\\&${it}` : it))
    .join('\n.br\n');

const bold = (text: string): string => `\\fB${plain(text)}\\fR`;

const argumentsOf = ({ registeredArguments }: Command): string =>
  registeredArguments
    .map((it) => `${it.name()}${it.variadic ? '...' : ''}`)
    .map((name, at) => (registeredArguments[at]?.required ? name : `[${name}]`))
    .join(' ');

const entry = (term: string, text: string): string => `.TP\n${bold(term)}\n${plain(text)}`;

function section([name, verb]: [string, Command]): string {
  const options = verb.options.filter((it) => !it.hidden);
  return [
    `.SS ${plain(`${name.replace('ringfence ', '')} ${argumentsOf(verb)}`.trim())}`,
    plain(verb.description()),
    ...verb.registeredArguments.filter((it) => it.description).map((it) => entry(it.name(), it.description)),
    ...options.map((it) => entry(it.flags, it.description)),
  ].join('\n');
}

process.stdout.write(`.\\" Written by script/gen-man.ts from src/cli/verbs.
.TH RINGFENCE 1 "" "Ringfence ${version}" "User Commands"
.SH NAME
ringfence \\- a daemon that executes the tool calls of AI agents safely
.SH SYNOPSIS
.B ringfence
.I VERB
[arguments] [options]
.SH DESCRIPTION
${plain(program.description())}
.PP
.B ringfence VERB \\-\\-help
shows the same of one verb, with examples.
.SH OPTIONS
${program.options.map((it) => entry(it.flags, it.description)).join('\n')}
.SH VERBS
${verbs.map(section).join('\n')}
.SH SEE ALSO
.BR bwrap (1),
.BR systemctl (1).
The documentation is in /usr/lib/ringfence/docs.
`);
