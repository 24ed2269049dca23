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

const inCell = (text: string): string => text.replaceAll('|', '\\|').replaceAll(/\s*\n\s*/g, ' ');

function parameterRows({ properties = {}, required = [] }: Schema): string[] {
  const rows = Object.entries(properties).map(([name, it]) => {
    const byDefault = it.default === undefined ? '' : `\`${JSON.stringify(it.default)}\``;
    const whether = required.includes(name) ? 'required' : byDefault;
    const told = `${it.description ?? ''}${it[RARE] === true ? ' Accepted, but not in the lists that models are given.' : ''}`;
    return `| \`${name}\` | ${inCell(typeOf(it))} | ${inCell(whether)} | ${inCell(told)} |`;
  });
  return ['| parameter | type | default | |', '|---|---|---|---|', ...rows];
}

function resultRows({ properties = {} }: Schema): string[] {
  const rows = Object.entries(properties).map(
    ([name, it]) => `| \`${name}\` | ${inCell(typeOf(it))} | ${inCell(it.description ?? '')} |`,
  );
  return ['| result | type | |', '|---|---|---|', ...rows];
}

/** A paragraph in lines of at most 120 characters. */
function wrapped(paragraph: string): string {
  const lines: string[] = [];
  for (const word of paragraph.split(/\s+/)) {
    const longer = `${lines.at(-1) ?? ''} ${word}`;
    if (lines.length > 0 && longer.length <= 120) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines.join('\n');
}

function section(tool: Tool): string {
  const info: ToolInfo = toToolInfo(tool, 'ask');
  const { name, title, description, tier, category, aliases, capabilities, dependencies } = info;
  const [example] = tool.examples;
  const listed = (label: string, names: readonly string[]) =>
    names.length > 0 ? [`${label}: ${names.map((it) => `\`${it}\``).join(', ')}`] : [];
  const facts = [`Tier: \`${tier}\``, `category: \`${category}\``]
    .concat(listed('aliases', aliases), listed('usually after', dependencies))
    .join(' · ');
  const parts = [
    `## ${name}`,
    wrapped(`**${title}.** ${description}`),
    ...(tool.notes === undefined ? [] : [wrapped(tool.notes)]),
    wrapped(facts),
    capabilities.map((it) => `- \`${it.action}\`: ${it.description}`).join('\n'),
    parameterRows(info.inputSchema).join('\n'),
    resultRows(info.outputSchema ?? {}).join('\n'),
    ...(example ? [`Example: \`${JSON.stringify(example.input)}\``] : []),
  ];
  return parts.join('\n\n');
}

const text = `# Built-in tools

Written by \`npm run gen\` from the tools in \`src/tools/\`. \`ringfence tools NAME\` says the same of one tool, with what the
policy in force decides about it. Paths are relative to the workspace root; absolute ones
that lead into it are taken, too.

Lines and columns count from 1. Tools that work on code by its meaning (\`code_*\`, \`workspace_find_references\`) count
columns in UTF-16 units, as editors and language servers do: an emoji counts two, and a column that one of them gives
may be passed to another. \`file_grep\` counts characters.

${toolsOf(builtinToolset()).map(section).join('\n\n')}
`;
if (process.argv.includes('--print')) process.stdout.write(text);
else writeFileSync(new URL('../docs/tools.md', import.meta.url), text);
