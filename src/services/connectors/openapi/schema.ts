/** Converts schemas of OpenAPI 3.0 and 3.1 to those of connector files, as far as these have a word for it. */

import { isRecord } from '../../../base/text/values.ts';
import type { JsonSchema } from '../../pinned/json-schema.ts';
import { patternProblem } from '../patterns.ts';
import type { Node, OpenApiDocument } from './document.ts';

/** Deepest nesting of a schema that is converted; what is deeper becomes any value. */
const DEPTH_MAX = 6;
const ENUM_MAX = 256;
const ALTERNATIVES_MAX = 16;
const PROPERTIES_MAX = 64;
/** Objects of the document that one parameter is made of: schemas that branch at each level would take forever. */
const NODES_MAX = 50;
const DESCRIPTION_CHARS_MAX = 300;
/** The same for members of members, of which there are many. */
const INNER_DESCRIPTION_CHARS_MAX = 100;

const PATTERN_CHARS_MAX = 512;

/** Whether a pattern is one of JavaScript's, as those of connector files are. */
function isExpression(pattern: string): boolean {
  try {
    return new RegExp(pattern, 'u') instanceof RegExp;
  } catch {
    return false; // SyntaxError.
  }
}

const NAME = /^[A-Za-z][A-Za-z0-9_]{0,63}$/;
const TYPES: ReadonlySet<unknown> = new Set(['string', 'number', 'integer', 'boolean', 'null', 'array', 'object']);
const FORMATS: ReadonlySet<unknown> = new Set([
  ...['date-time', 'date', 'time', 'email', 'hostname', 'uri', 'ipv4', 'ipv6', 'uuid'],
]);

/** Whether a connector file can have a parameter of that name. */
export const isUsableName = (name: string): boolean => NAME.test(name) && !(name in Object.prototype);

/** The schema of one parameter, and what of it was left out. */
export class SchemaReader {
  readonly #document: OpenApiDocument;
  readonly #notes = new Set<string>();
  #nodes = 0;

  constructor(document: OpenApiDocument) {
    this.#document = document;
  }

  /** Notes about parts that were left out, each a few words. */
  get notes(): string[] {
    return [...this.#notes];
  }

  /** Throws ReferenceProblem for a reference to elsewhere. */
  read(given: unknown): JsonSchema {
    this.#nodes = 0;
    return this.#read(given, DEPTH_MAX);
  }

  /** The properties of an object with those of its `allOf`; undefined if it is no object with known ones. */
  propertiesOf(given: unknown): { properties: Map<string, unknown>; required: ReadonlySet<string> } | undefined {
    this.#nodes = 0;
    const schema = this.#merged(given, DEPTH_MAX);
    if (!isRecord(schema.properties)) return undefined;
    const required = namesIn(schema.required);
    return { properties: new Map(this.#document.membersOf(schema.properties)), required: new Set(required) };
  }

  #read(given: unknown, depth: number): JsonSchema {
    if (depth === 0 || ++this.#nodes > NODES_MAX) {
      this.#notes.add('what is nested deeper');
      return {};
    }
    const schema = this.#merged(given, depth);
    const alternatives = [schema.oneOf, schema.anyOf].find(Array.isArray) as unknown[] | undefined;
    const described = descriptionOf(schema, depth < DEPTH_MAX ? INNER_DESCRIPTION_CHARS_MAX : DESCRIPTION_CHARS_MAX);
    if (alternatives) return { ...described, ...this.#alternatives(alternatives, depth) };
    return { ...described, ...this.#typed(schema, depth) };
  }

  /** The schema with those of its `allOf`, the first of equal keywords. */
  #merged(given: unknown, depth: number): Node {
    const schema = this.#document.objectAt(given) ?? {};
    if (!Array.isArray(schema.allOf)) return schema;
    if (depth === 0 || ++this.#nodes > NODES_MAX) return {};
    const parts = schema.allOf.slice(0, ALTERNATIVES_MAX).map((it) => this.#merged(it, depth - 1));
    const { allOf: _, ...own } = schema;
    let all: Node = own;
    for (const it of parts) all = { ...it, ...all, ...this.#joined(all, it) };
    return all;
  }

  #alternatives(all: readonly unknown[], depth: number): JsonSchema {
    const read = all.slice(0, ALTERNATIVES_MAX).map((it) => this.#read(it, depth - 1));
    if (all.length > ALTERNATIVES_MAX) this.#notes.add(`alternatives beyond ${ALTERNATIVES_MAX}`);
    const [only] = read;
    return read.length === 1 && only ? only : { anyOf: read };
  }

  #typed(schema: Node, depth: number): JsonSchema {
    const types = [schema.type].flat().filter((it) => TYPES.has(it)) as NonNullable<JsonSchema['type']>[];
    const isNullable = schema.nullable === true || types.includes('null');
    const [type = isRecord(schema.properties) ? 'object' : undefined, ...others] = types.filter((it) => it !== 'null');
    const of = (it: typeof type) => this.#ofType(schema, it, depth);
    const all = [of(type), ...others.map(of), ...(isNullable ? [{ type: 'null' as const }] : [])];
    return all.length === 1 ? (all[0] as JsonSchema) : { anyOf: all };
  }

  #ofType(schema: Node, type: JsonSchema['type'], depth: number): JsonSchema {
    const values = this.#enumOf(schema);
    const pattern = type === 'string' ? this.#patternOf(schema) : {};
    const base = { type, ...values, ...boundsOf(schema, type), ...pattern };
    if (type === 'array')
      return { ...base, ...(schema.items !== undefined && { items: this.#read(schema.items, depth - 1) }) };
    if (type !== 'object') return base;
    return { ...base, ...this.#members(schema, depth) };
  }

  #members({ properties, required }: Node, depth: number): JsonSchema {
    if (!isRecord(properties)) return {};
    const usable = this.#document.membersOf(properties).filter(([name, it]) => {
      if (!isUsableName(name)) this.#notes.add('members whose name is no letters, digits and _');
      return isUsableName(name) && !this.#isReadOnly(it);
    });
    if (usable.length > PROPERTIES_MAX) this.#notes.add(`members beyond ${PROPERTIES_MAX}`);
    const read = usable.slice(0, PROPERTIES_MAX).map(([name, it]) => [name, this.#read(it, depth - 1)] as const);
    const known = new Set(read.map(([name]) => name));
    const needed = [...new Set(namesIn(required))].filter((it) => known.has(it));
    return {
      properties: Object.fromEntries(read),
      ...(needed.length > 0 && { required: needed }),
    };
  }

  #isReadOnly(given: unknown): boolean {
    return this.#document.objectAt(given)?.readOnly === true;
  }

  #enumOf({ enum: values, const: only }: Node): JsonSchema {
    const list = Array.isArray(values) ? (values as unknown[]) : only === undefined ? [] : [only];
    if (list.length > ENUM_MAX) {
      // A part of the values would refuse the others.
      this.#notes.add(`lists of more than ${ENUM_MAX} values`);
      return {};
    }
    const plain = list.filter((it) => it === null || ['string', 'number', 'boolean'].includes(typeof it));
    const short = plain.filter((it) => typeof it !== 'string' || it.length <= 4096) as NonNullable<JsonSchema['enum']>;
    return short.length === 0 || short.length < list.length ? {} : { enum: short };
  }

  #patternOf({ pattern }: Node): JsonSchema {
    if (typeof pattern !== 'string') return {};
    if (pattern.length <= PATTERN_CHARS_MAX && isExpression(pattern) && patternProblem(pattern) === undefined)
      return { pattern };
    this.#notes.add('patterns that can not be checked in linear time');
    return {};
  }

  /** The properties and required names of both. */
  #joined(all: Node, it: Node): Node {
    const properties = [it.properties, all.properties].filter(isRecord);
    const required = [...namesIn(all.required), ...namesIn(it.required)];
    return {
      ...(properties.length > 0 && {
        properties: Object.fromEntries(properties.flatMap((one) => this.#document.membersOf(one))),
      }),
      ...(required.length > 0 && { required }),
    };
  }
}

/** Names in a list of required properties. */
const namesIn = (value: unknown): string[] =>
  Array.isArray(value) ? value.slice(0, REQUIRED_MAX).filter((it) => typeof it === 'string') : [];
const REQUIRED_MAX = 200;

/** The description in one short line. */
export function descriptionOf(
  { description, title }: Node,
  charsMax = DESCRIPTION_CHARS_MAX,
): { description?: string } {
  const text = [description, title].find((it) => typeof it === 'string' && it.trim() !== '') as string | undefined;
  const line = text
    ?.slice(0, 4 * DESCRIPTION_CHARS_MAX)
    .replaceAll(/\s+/g, ' ')
    .trim()
    .toWellFormed();
  if (line === undefined) return {};
  return { description: line.length <= charsMax ? line : `${line.slice(0, charsMax - 1)}…` };
}

const LENGTH_MAX = 1_000_000_000;

function boundsOf(schema: Node, type: JsonSchema['type']): JsonSchema {
  const size = (name: string) => {
    const value = schema[name];
    return Number.isInteger(value) && (value as number) >= 0 && (value as number) <= LENGTH_MAX
      ? { [name]: value }
      : {};
  };
  const number = (name: string) => (Number.isFinite(schema[name]) ? { [name]: schema[name] } : {});
  switch (type) {
    case 'string':
      return {
        ...size('minLength'),
        ...size('maxLength'),
        ...(FORMATS.has(schema.format) && { format: schema.format as 'uri' }),
      };
    case 'number':
    case 'integer':
      return {
        ...number('minimum'),
        ...number('maximum'),
        ...number('exclusiveMinimum'),
        ...number('exclusiveMaximum'),
      };
    case 'array':
      return { ...size('minItems'), ...size('maxItems') };
    default:
      return {};
  }
}
