/** Short type declarations of tools for programs, made from their schemas. */
import type { ToolInfo } from './capability.ts';

export interface Schema {
  readonly type?: string | readonly string[];
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: Schema | boolean;
}

/** The most detailed form that fits into `charsMax`: inputs with the names of outputs, inputs alone, or as many names as fit. */
export function declarationsOf(tools: readonly ToolInfo[], charsMax: number): string {
  const forms = [
    tools.map((it) => `${it.name}(${inputOf(it)}): ${namesOf(it.outputSchema ?? {})}`),
    tools.map((it) => `${it.name}(${inputOf(it)})`),
    tools.map((it) => it.name),
  ];
  const texts = forms.map((lines, at) => HEAD + lines.join(at === forms.length - 1 ? ' ' : '\n'));
  return texts.find((it) => it.length <= charsMax) ?? `${texts.at(-1)?.slice(0, charsMax)}…`;
}

/** The name of a tool with the types of its input and output. */
export const declarationOf = (it: Pick<ToolInfo, 'name' | 'inputSchema' | 'outputSchema'>): string =>
  `${it.name}(${typeOf(it.inputSchema)}): ${typeOf(it.outputSchema ?? {})}`;

const HEAD = 'As `await tools.NAME(input)`, with what it gives:\n';

const inputOf = ({ inputSchema }: ToolInfo): string => typeOf(inputSchema);

const namesOf = (schema: Schema): string => `{${Object.keys(schema.properties ?? {}).join(', ')}}`;

/** The TypeScript type of a schema's values. */
export function typeOf(schema: Schema): string {
  const { enum: values, const: value, anyOf, oneOf, type } = schema;
  if (values) return values.map((it) => JSON.stringify(it)).join('|');
  if (value !== undefined) return JSON.stringify(value);
  const either = anyOf ?? oneOf;
  if (either) return either.map(typeOf).join('|');
  if (Array.isArray(type)) return (type as string[]).map((it) => typeOf({ ...schema, type: it })).join('|');
  if (type === 'array') return listOf(schema.items ? typeOf(schema.items) : 'unknown');
  if (type === 'object') return objectOf(schema);
  if (type === 'integer') return 'number';
  return typeof type === 'string' ? type : 'unknown';
}

const listOf = (item: string): string => (item.includes('|') ? `(${item})[]` : `${item}[]`);

function objectOf({ properties, required = [], additionalProperties: others }: Schema): string {
  if (!properties) return `{[name: string]: ${typeof others === 'object' ? typeOf(others) : 'unknown'}}`;
  const members = Object.entries(properties).map(
    ([name, it]) => `${name}${required.includes(name) ? '' : '?'}: ${typeOf(it)}`,
  );
  return `{${members.join(', ')}}`;
}
