/** policies/policy.schema.json tells an editor of every key what it is, what it does and what to write there. */
import { readFileSync } from 'node:fs';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { expect, test } from 'vitest';

interface Schema {
  readonly [key: string]: unknown;
  readonly title?: string;
  readonly description?: string;
  readonly examples?: readonly unknown[];
}

const schema = JSON.parse(
  readFileSync(new URL('../../../policies/policy.schema.json', import.meta.url), 'utf8'),
) as Schema;

/** A schema with what a definition that it refers to says; an editor shows both. */
function resolved(property: Schema): Schema {
  const name = /^#\/\$defs\/(\w+)$/.exec(String(property.$ref))?.[1];
  return name === undefined ? property : { ...(schema.$defs as Record<string, Schema>)[name], ...property };
}

/** The schema of each key, by its path in the file. */
function propertiesOf(value: unknown, path: string): [path: string, schema: Schema][] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, it]) => {
    if (key === 'examples' || key === 'default') return [];
    if (key !== 'properties') return propertiesOf(it, `${path}/${key}`);
    return Object.entries(it as Record<string, Schema>).flatMap(([name, property]): [string, Schema][] => [
      [`${path}/properties/${name}`, resolved(property)],
      ...propertiesOf(property, `${path}/properties/${name}`),
    ]);
  });
}
const properties = propertiesOf(schema, '#');

test('every key has a title, a description and examples', () => {
  expect(properties.length).toBeGreaterThan(60);
  const silent = properties.filter(([, it]) => !it.title || !it.description || !it.examples?.length);
  expect(silent.map(([path]) => path)).toEqual([]);
});

test('every example is one that its key takes', () => {
  const ajv = new Ajv2020({ strict: false });
  ajv.addSchema(schema, 'policy');
  const refused = properties.flatMap(([path, { examples = [] }]) => {
    const accepts = ajv.compile({ $ref: `policy${path}` });
    return examples.filter((it) => !accepts(it)).map((it) => `${path}: ${JSON.stringify(it)}`);
  });
  expect(refused).toEqual([]);
});
