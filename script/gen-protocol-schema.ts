// Writes dist/protocol.schema.json, the shapes of all messages for programs in other languages. `npm run build` runs it.
import { writeFileSync } from 'node:fs';
import * as z from 'zod';
import { RPC_CODES } from '../src/base/errors.ts';
import { answers, notifications } from '../src/wire/protocol/answers.ts';
import { params } from '../src/wire/protocol/messages.ts';
import { OPERATOR_METHODS } from '../src/wire/protocol/methods.ts';
import * as shapes from '../src/wire/protocol/shapes.ts';

type Json = Record<string, unknown>;
const ref = (name: string): Json => ({ $ref: `#/$defs/${name}` });

/** The name of a shape as in docs/protocol-reference.md: `toolResult` becomes ToolResult. */
const shapeName = (name: string): string => `${name[0]?.toUpperCase()}${name.slice(1)}`;

/** Parameters of methods as they are sent: those with a default are optional. */
const registry = z.registry<{ id: string }>();
for (const [name, schema] of Object.entries(shapes)) registry.add(schema, { id: shapeName(name) });
for (const [name, schema] of Object.entries(params)) registry.add(schema, { id: `${name}.params` });
for (const [name, schema] of Object.entries(notifications)) registry.add(schema, { id: `${name}.params` });
const toJsonSchemas = (named: typeof registry) =>
  z.toJSONSchema(named, {
    io: 'input',
    unrepresentable: 'any',
    uri: (id) => `#/$defs/${id}`,
    override({ zodSchema, jsonSchema }) {
      // Bytes: the schema describes the JSON form.
      if (zodSchema._zod.def.type === 'custom')
        Object.assign(jsonSchema, { type: 'string', contentEncoding: 'base64' });
    },
  }).schemas;
const schemas = toJsonSchemas(registry);
/**
 * The schema of an answer. An answer may itself be a named shape, and a schema can have one name only: so each is
 * made alone, with references to the shapes.
 */
const answerOf = (schema: z.ZodType): unknown => {
  const known = Object.entries(shapes).find(([, it]) => it === schema);
  if (known) return ref(shapeName(known[0]));
  const own = z.registry<{ id: string }>();
  for (const [name, it] of Object.entries(shapes)) own.add(it, { id: shapeName(name) });
  own.add(schema, { id: 'answer' });
  return toJsonSchemas(own).answer;
};

const methods = Object.keys(params) as (keyof typeof params)[];
const id = { type: ['string', 'integer'] };
const jsonrpc = { const: '2.0' };
const object = (properties: Json, required: readonly string[]): Json => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
});

const $defs: Json = {
  ...schemas,
  ...Object.fromEntries(methods.map((it) => [`${it}.result`, answerOf(answers[it])])),
  Request: {
    anyOf: methods.map((method) =>
      object({ jsonrpc, id, method: { const: method }, params: ref(`${method}.params`) }, ['id', 'method']),
    ),
  },
  Notification: {
    anyOf: Object.keys(notifications).map((method) =>
      object({ jsonrpc, method: { const: method }, params: ref(`${method}.params`) }, ['method', 'params']),
    ),
  },
  Response: {
    anyOf: [
      object({ jsonrpc, id, result: { description: 'As METHOD.result says of the method that was asked.' } }, [
        'id',
        'result',
      ]),
      object({ jsonrpc, id: { type: ['string', 'integer', 'null'] }, error: ref('RpcError') }, ['id', 'error']),
    ],
  },
  RpcError: object(
    {
      code: { enum: Object.values(RPC_CODES) },
      message: { type: 'string' },
      data: { type: 'object', properties: { code: { enum: Object.keys(RPC_CODES) } }, required: ['code'] },
    },
    ['code', 'message', 'data'],
  ),
};

/** Removes ids and dialects of parts, which mean nothing inside the whole. */
const clean = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(clean);
  if (typeof value !== 'object' || value === null) return value;
  const { $id: _, $schema: __, ...rest } = value as Json;
  return Object.fromEntries(Object.entries(rest).map(([key, it]) => [key, clean(it)]));
};

const schema = {
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  title: 'The messages of Ringfence, protocol 1',
  description:
    'In their JSON form; over MessagePack the same, with bytes as bin. METHOD.params and METHOD.result of $defs belong to one request.',
  anyOf: [ref('Request'), ref('Notification'), ref('Response')],
  operatorMethods: [...OPERATOR_METHODS],
  $defs: clean($defs),
};
const text = `${JSON.stringify(schema, null, 2)}\n`;
if (process.argv.includes('--print')) process.stdout.write(text);
else writeFileSync(new URL('../dist/protocol.schema.json', import.meta.url), text);
