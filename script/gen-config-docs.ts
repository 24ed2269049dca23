// Writes the tables of docs/configuration.md from the schema of config.yaml and the comments of src/base/limits. `npm run gen` runs it.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import * as z from 'zod';
import { defaultLimits } from '../src/base/limits.ts';
import { PUBLIC_LIMITS } from '../src/daemon/config/limits.ts';
import { configSchema } from '../src/daemon/config.ts';

const root = new URL('../', import.meta.url);
const page = new URL('docs/configuration.md', root);

/** The type of a schema in words for a reader. */
function typeOf(schema: z.core.JSONSchema.JSONSchema | boolean): string {
  if (typeof schema === 'boolean') return 'any';
  if (schema.enum) return schema.enum.map((it) => `\`${it}\``).join(', ');
  if (schema.type === 'array') return 'list of texts';
  if (schema.type === 'object') return 'map';
  return schema.type === 'string' ? 'text' : String(schema.type);
}

type Named = readonly [name: string, schema: z.core.JSONSchema.JSONSchema];

/** The keys of a map and of the maps in it that have keys of their own. */
function keysBelow(name: string, { properties = {} }: z.core.JSONSchema.JSONSchema): Named[] {
  return Object.entries(properties).flatMap(([key, schema]) =>
    typeof schema === 'boolean' ? [] : [[`${name}.${key}`, schema] as const, ...keysBelow(`${name}.${key}`, schema)],
  );
}

/** Maps whose keys are listed; those of the others are on pages of their own. */
const WITH_KEYS: readonly string[] = ['cache', 'search', 'packages', 'telemetry'];

function keyRows(): string[] {
  const { properties = {} } = z.toJSONSchema(configSchema, { io: 'input', unrepresentable: 'any' });
  return Object.entries(properties).flatMap(([key, schema]) => {
    if (typeof schema === 'boolean') return [];
    const below = WITH_KEYS.includes(key) ? keysBelow(key, schema) : [];
    return [[key, schema] as const, ...below].map(
      ([name, it]) => `| \`${name}\` | ${typeOf(it)} | ${it.description ?? ''} |`,
    );
  });
}

/** The comment of each limit: its first words say what the limit is, the rest what it protects against. */
function limitComments(): Map<string, string> {
  const folder = new URL('src/base/limits/', root);
  const files = [new URL('src/base/limits.ts', root), ...readdirSync(folder).map((it) => new URL(it, folder))];
  const texts = files.map((it) => readFileSync(it, 'utf8'));
  const found = texts.flatMap((text) => [...text.matchAll(/\/\*\*((?:(?!\*\/)[\s\S])*)\*\/\s*(\w+):/g)]);
  return new Map(found.map(([, comment = '', name = '']) => [name, comment.replaceAll(/\s*\n\s*\*?\s*/g, ' ').trim()]));
}

const UNITS = [
  [/Ms(Max)?$/, 'ms'],
  [/Mb(Max)?$/, 'MiB'],
  [/Usd/, 'USD'],
  [/Chars/, 'characters'],
  [/[bB]ytes/, 'bytes'],
] as const;
const unitOf = (name: string): string => UNITS.find(([pattern]) => pattern.test(name))?.[1] ?? '';

const KiB = 1024;
/** A number as a person writes it. */
function shown(value: number, unit: string): string {
  if (unit === 'bytes' && value % KiB ** 2 === 0) return `${value / KiB ** 2} MiB`;
  if (unit === 'bytes' && value % KiB === 0) return `${value / KiB} KiB`;
  if (unit === 'ms' && value >= 86_400_000 && value % 86_400_000 === 0) return `${value / 86_400_000} d`;
  if (unit === 'ms' && value >= 1000) return `${value / 1000} s`;
  return [value.toLocaleString('en').replaceAll(',', ' '), unit].filter(Boolean).join(' ');
}

function limitRows(): string[] {
  const comments = limitComments();
  const row = (name: string, value: unknown, comment: string): string[] => {
    if (typeof value === 'object' && value !== null)
      return Object.entries(value).flatMap(([key, it]) => row(`${name}.${key}`, it, comments.get(key) ?? comment));
    const unit = name.startsWith('callTimeoutMs.') ? 'ms' : unitOf(name);
    return [`| \`${name}\` | ${shown(value as number, unit)} | ${comment.replaceAll('|', '\\|')} |`];
  };
  const shownLimits = Object.entries(defaultLimits).filter(([name]) => PUBLIC_LIMITS.includes(name));
  return shownLimits.flatMap(([name, value]) => row(name, value, comments.get(name) ?? ''));
}

const tables = {
  keys: ['| key | value | what |', '|---|---|---|', ...keyRows()],
  limits: ['| `limits.` | default | what, and against what |', '|---|---|---|', ...limitRows()],
};

let text = readFileSync(page, 'utf8');
for (const [name, lines] of Object.entries(tables)) {
  const [begin, end] = [`<!-- ${name}: written by \`npm run gen\` -->\n`, `<!-- end of ${name} -->`];
  const [from, to] = [text.indexOf(begin) + begin.length, text.indexOf(end)];
  if (to < from) throw new Error(`docs/configuration.md has no place for the ${name}`);
  text = `${text.slice(0, from)}${lines.join('\n')}\n${text.slice(to)}`;
}
if (process.argv.includes('--print')) process.stdout.write(text);
else writeFileSync(page, text);
