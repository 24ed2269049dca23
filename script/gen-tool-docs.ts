// Writes docs/tools.md: the reference of the built-in tools, from their definitions. `npm run gen` runs it.
import { writeFileSync } from 'node:fs';
import type { ToolInfo } from '../src/tools/capability.ts';
import { RARE } from '../src/tools/rare-parameters.ts';
import { builtinToolset, toolsOf, toToolInfo } from '../src/tools/registry.ts';
import type { Tool } from '../src/tools/tool.ts';

interface Schema {
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly default?: unknown;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly [RARE]?: unknown;
}

function typeOf({ type, items, anyOf, oneOf, ...it }: Schema): string {
  if (it.enum) return it.enum.map((value) => `\`${JSON.stringify(value)}\``).join(', ');
  if (it.const !== undefined) return `\`${JSON.stringify(it.const)}\``;
  const choices = anyOf ?? oneOf;
  if (choices) return [...new Set(choices.map(typeOf))].join(' or ');
  if (type === 'array') return items ? `array of ${typeOf(items)}` : 'array';
  return [type ?? 'any'].flat().join(' or ');
}

const inLine = (text: string): string => text.replaceAll(/\s*\n\s*/g, ' ');

/** Each parameter in a line: its type, its default or that it is required, and what it is. */
function parameterLines({ properties = {}, required = [] }: Schema): string[] {
  return Object.entries(properties).map(([name, it]) => {
    const whether = required.includes(name) ? 'required' : it.default === undefined ? '' : JSON.stringify(it.default);
    const type = typeOf(it);
    const marks = [
      type === 'string' ? '' : type,
      whether === 'required' || whether === '' ? whether : `default \`${whether}\``,
    ]
      .concat(it[RARE] === true ? ['rare'] : [])
      .filter((mark) => mark !== '');
    const about = marks.length > 0 ? ` (${marks.join('; ')})` : '';
    return wrapped(`- \`${name}\`${about}: ${inLine(it.description ?? '')}`.replace(/: $/, ''), '  ');
  });
}

const nameOf = ([name, it]: [string, Schema]): string =>
  it.enum || it.const !== undefined ? `\`${name}\` (${typeOf(it)})` : `\`${name}\``;

/** What a result has: fields that say enough by their names in one line, then the others. */
function resultLines({ properties = {} }: Schema): string[] {
  const all = Object.entries(properties);
  const plain = all.filter(([, it]) => !it.description).map(nameOf);
  const told = all
    .filter(([, it]) => it.description)
    .map((field) => wrapped(`- ${nameOf(field)}: ${inLine(field[1].description ?? '')}`, '  '));
  return [wrapped(`Result: ${plain.join(', ')}`.trim()), ...(told.length > 0 ? ['', ...told] : [])];
}

/** A paragraph in lines of at most 120 characters, the later ones behind `indent`. */
function wrapped(paragraph: string, indent = ''): string {
  const lines: string[] = [];
  for (const word of paragraph.split(/\s+/)) {
    const longer = `${lines.at(-1) ?? ''} ${word}`;
    if (lines.length > 0 && longer.length <= 120) lines[lines.length - 1] = longer;
    else lines.push(lines.length > 0 ? indent + word : word);
  }
  return lines.join('\n');
}

function section(tool: Tool): string {
  const info: ToolInfo = toToolInfo(tool, 'ask');
  const { name, title, description, tier, category, aliases, dependencies } = info;
  const [example] = tool.examples;
  const listed = (label: string, names: readonly string[]) =>
    names.length > 0 ? [`${label} ${names.map((it) => `\`${it}\``).join(', ')}`] : [];
  const facts = [`\`${tier}\`, \`${category}\``]
    .concat(listed('aliases', aliases), listed('usually after', dependencies))
    .join('; ');
  const parts = [
    `## ${name}`,
    wrapped(`**${title}.** ${description}`),
    ...(tool.notes === undefined ? [] : [wrapped(tool.notes)]),
    wrapped(facts),
    parameterLines(info.inputSchema).join('\n'),
    resultLines(info.outputSchema ?? {}).join('\n'),
    ...(example ? [`Example: \`${JSON.stringify(example.input)}\``] : []),
  ];
  return parts.filter((it) => it !== '').join('\n\n');
}

const text = `# Built-in tools

Written by \`npm run gen\` from the tools in \`src/tools/\`. \`ringfence tools NAME\` says the same of one tool, with what the
policy in force decides about it, and \`--json\` has its schemas. Paths are relative to the workspace root; absolute ones
that lead into it are taken, too. Below each tool stand its tier and category. A parameter without a type is a string;
one that is *rare* is accepted, but not in the lists that models are given.

Lines and columns count from 1. Tools that work on code by its meaning (\`code_*\`, \`workspace_find_references\`) count
columns in UTF-16 units, as editors and language servers do: an emoji counts two, and a column that one of them gives
may be passed to another. \`file_grep\` counts characters.

${toolsOf(builtinToolset()).map(section).join('\n\n')}
`;
if (process.argv.includes('--print')) process.stdout.write(text);
else writeFileSync(new URL('../docs/tools.md', import.meta.url), text);
