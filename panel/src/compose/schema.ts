/** What the JSON Schemas of a tool say about its parameters and outputs, as far as a form needs it. */

export interface Schema {
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly default?: unknown;
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
}

export interface Parameter {
  readonly name: string;
  readonly kind: 'text' | 'json';
  readonly isRequired: boolean;
  /** The values to choose from; undefined if there are more than a few. */
  readonly choices?: readonly string[];
  readonly description: string;
}

/** Most outputs that are offered of one call. */
const OUTPUTS_MAX = 40;
const DEPTH_MAX = 4;

const alternativesOf = ({ anyOf = [], oneOf = [] }: Schema): readonly Schema[] => [...anyOf, ...oneOf];

function choicesOf(schema: Schema): string[] | undefined {
  if (schema.type === 'boolean') return ['true', 'false'];
  return schema.enum?.every((it) => typeof it === 'string') ? (schema.enum as string[]) : undefined;
}

/** Whether a value of the schema is a text, and needs no quotes in a field. */
const isText = (schema: Schema): boolean =>
  schema.type === 'string' || (schema.type === undefined && alternativesOf(schema).some(isText));

/** The parameters of a tool, the required ones first; undefined if the input is no plain object. */
export function parametersOf(schema: Schema): Parameter[] | undefined {
  const { properties, required = [] } = schema;
  if (!properties) return undefined;
  const all = Object.entries(properties).map(([name, its]): Parameter => {
    const choices = choicesOf(its);
    return {
      name,
      kind: isText(its) ? 'text' : 'json',
      isRequired: required.includes(name),
      description: its.description ?? '',
      ...(choices && { choices }),
    };
  });
  return [...all.filter((it) => it.isRequired), ...all.filter((it) => !it.isRequired)];
}

/** Paths of the outputs of a call, as references name them: `data.files[0].path`. */
export function outputsOf(schema: Schema | undefined): string[] {
  const paths: string[] = [];
  const visit = (its: Schema, path: string, depth: number): void => {
    if (paths.length >= OUTPUTS_MAX || depth > DEPTH_MAX) return;
    if (path !== 'data' && !paths.includes(path)) paths.push(path);
    // Other names can't be written in a path.
    for (const [name, inner] of Object.entries(its.properties ?? {}))
      if (/^\w+$/.test(name)) visit(inner, `${path}.${name}`, depth + 1);
    if (its.items) visit(its.items, `${path}[0]`, depth + 1);
    for (const it of alternativesOf(its)) if (it.properties || it.items) visit(it, path, depth);
  };
  if (schema) visit(schema, 'data', 0);
  return paths;
}
