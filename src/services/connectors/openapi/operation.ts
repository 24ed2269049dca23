/** Converts one operation of an OpenAPI document to one of a connector file. */

import { isRecord } from '../../../base/text/values.ts';
import type { JsonSchema } from '../../pinned/json-schema.ts';
import { type Node, type OpenApiDocument, ReferenceProblem } from './document.ts';
import { NameList, toParameterName } from './names.ts';
import { descriptionOf, isUsableName, SchemaReader } from './schema.ts';
import type { FoundOperation } from './selection.ts';

/** An operation as a connector file has it, and what was left out of it. */
export interface MadeOperation {
  readonly operation: Readonly<Record<string, unknown>>;
  readonly notes: readonly string[];
}

/** Parameters of one operation; models read all of them. */
const INPUTS_MAX = 40;
/** Fields of one output. */
const FIELDS_MAX = 24;
const NAME_CHARS_MAX = 128;
/** Headers that the connector or the egress process sets, or that carry the secret. */
const SET_HEADERS =
  /^(accept|accept-encoding|authorization|connection|content-.*|cookie|expect|host|idempotency-key|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|user-agent)$/i;
const isOwnHeader = (name: string): boolean => /^[A-Za-z0-9!#$%&'*+.^_|~-]+$/.test(name) && !SET_HEADERS.test(name);

/** Throws ReferenceProblem if the operation refers to what can't be read. */
export function toOperation({ method, path, node, shared }: FoundOperation, document: OpenApiDocument): MadeOperation {
  if (!/^\/[^?#\s]{0,1000}$/.test(path)) throw new ReferenceProblem('its path holds a query, spaces, or too much');
  const inputs = new Inputs(document);
  const request = inputs.requestOf({ path, node, shared });
  const isReading = method === 'GET' || method === 'HEAD';
  const { output, isList } = outputOf(node, document);
  if (isList) inputs.notes.add('pages: see `paginate`');
  const { description = `${method} ${path}` } = descriptionOf({ description: node.summary ?? node.description });
  return {
    operation: {
      description,
      request: { method, ...request },
      ...(inputs.properties.size > 0 && { input: Object.fromEntries(inputs.properties) }),
      ...(inputs.required.size > 0 && { required: [...inputs.required] }),
      output,
      ...(!isReading && { approval: 'always' }),
      retry: { on: isReading ? [429, 502, 503] : [429], honour: 'Retry-After', max: 2 },
    },
    notes: [...inputs.notes, ...(node.deprecated === true ? ['it is deprecated'] : [])],
  };
}

type Place = Pick<FoundOperation, 'path' | 'node' | 'shared'>;

/** The parameters of an operation, and the templates that send them. */
class Inputs {
  readonly properties = new Map<string, JsonSchema>();
  readonly required = new Set<string>();
  readonly notes = new Set<string>();
  readonly #document: OpenApiDocument;
  readonly #names = new NameList();

  constructor(document: OpenApiDocument) {
    this.#document = document;
  }

  /** The rest of `request` beside its method. */
  requestOf(place: Place): Record<string, unknown> {
    const parameters = this.#parametersOf(place);
    const inPath = parameters.filter((it) => it.in === 'path');
    let { path } = place;
    for (const it of inPath) {
      const name = this.#add(it.name as string, it, true);
      path = path.replace(`{${it.name as string}}`, `{${name}}`);
    }
    // What no parameter declares is a parameter all the same.
    path = path.replaceAll(/\{([^{}]*)\}/g, (whole, name: string) =>
      this.properties.has(name) ? whole : `{${this.#add(name, { schema: { type: 'string' } }, true)}}`,
    );
    const templates = (where: string) =>
      parameters.filter((it) => it.in === where && this.#isSendable(it)).flatMap((it) => this.#template(it));
    const query = templates('query');
    const headers = templates('header');
    return {
      path,
      ...(query.length > 0 && { query: Object.fromEntries(query) }),
      ...(headers.length > 0 && { headers: Object.fromEntries(headers) }),
      ...this.#body(place.node),
    };
  }

  /** Parameters of the operation, and those of its path that it does not have itself. */
  #parametersOf({ node, shared }: Place): Node[] {
    const found = new Map<string, Node>();
    for (const given of [...listOf(node.parameters), ...listOf(shared.parameters)]) {
      const it = this.#document.objectAt(given);
      if (typeof it?.name !== 'string' || typeof it.in !== 'string') continue;
      const key = JSON.stringify([it.in, it.name]);
      if (!found.has(key)) found.set(key, it);
      if (it.in === 'cookie') this.notes.add('parameters in cookies');
    }
    return [...found.values()];
  }

  /** Whether the value is sent as it is: objects have many ways of being written in a query. */
  #isSendable(it: Node): boolean {
    const type = this.#document.objectAt(it.schema)?.type;
    const isPlain = type !== 'object' && it.content === undefined;
    if (!isPlain) this.notes.add('parameters that are objects');
    const name = it.name as string;
    return isPlain && name.length <= NAME_CHARS_MAX && !(it.in === 'header' && !isOwnHeader(name));
  }

  #template(it: Node): [string, string][] {
    const name = it.name as string;
    const isRequired = it.required === true;
    if (!isRequired && this.properties.size >= INPUTS_MAX) {
      this.notes.add(`parameters beyond ${INPUTS_MAX}`);
      return [];
    }
    return [[name, `\${input.${this.#add(name, it, isRequired)}}`]];
  }

  #body({ requestBody }: Node): Record<string, unknown> {
    const body = this.#document.objectAt(requestBody);
    const content = this.#document.objectAt(body?.content);
    if (!body || !content) return {};
    const types = Object.keys(content);
    const json = types.find((it) => /^application\/([\w.+-]+\+)?json\b/i.test(it));
    const form = types.find((it) => /^application\/x-www-form-urlencoded\b/i.test(it));
    const type = json ?? form;
    if (type === undefined) {
      this.notes.add(`the body, which is ${types.slice(0, 3).join(', ') || 'of no type'}`);
      return {};
    }
    const schema = this.#document.objectAt(content[type])?.schema;
    return { [json === undefined ? 'form' : 'json']: this.#bodyTemplate(schema, body.required === true) };
  }

  #bodyTemplate(schema: unknown, isNeeded: boolean): unknown {
    const members = new SchemaReader(this.#document).propertiesOf(schema);
    if (!members) return `\${input.${this.#add('body', { schema, description: 'Body of the request.' }, isNeeded)}}`;
    const all = [...members.properties].filter(
      ([name, it]) =>
        name.length <= NAME_CHARS_MAX && !(name in Object.prototype) && this.#document.objectAt(it)?.readOnly !== true,
    );
    const sorted = all.toSorted(([a], [b]) => Number(members.required.has(b)) - Number(members.required.has(a)));
    const sent = sorted.flatMap(([name, it]): [string, string][] => {
      const isRequired = isNeeded && members.required.has(name);
      return this.#template({ name, schema: it, required: isRequired });
    });
    return Object.fromEntries(sent);
  }

  /** Adds a parameter, and gives the name that it has in the file. */
  #add(given: string, it: Node, isRequired: boolean): string {
    const name = this.#names.add(toParameterName(given));
    const reader = new SchemaReader(this.#document);
    const schema = reader.read(it.schema);
    for (const note of reader.notes) this.notes.add(note);
    const { description = schema.description ?? given } = descriptionOf(it);
    this.properties.set(name, { ...schema, description });
    if (isRequired) this.required.add(name);
    return name;
  }
}

/** The fields of the answer that a file can name: plain values first, since lists and objects are long. */
function outputOf(node: Node, document: OpenApiDocument): { output: Record<string, unknown>; isList: boolean } {
  const schema = responseSchemaOf(node, document);
  const reader = new SchemaReader(document);
  const members = schema === undefined ? undefined : reader.propertiesOf(schema);
  if (members) {
    const list = [...members.properties].find(([, it]) => itemFieldsOf(it, document));
    const fields = fieldsOf(members.properties, document);
    if (!list && Object.keys(fields).length === 0) return { output: { status: 'status' }, isList: false };
    return {
      output: list ? { ...fields, ...listOutput(list[0], `$${stepTo(list[0])}`, list[1], document) } : fields,
      isList: list !== undefined,
    };
  }
  if (itemFieldsOf(schema, document)) return { output: listOutput('items', '$', schema, document), isList: true };
  return { output: { status: 'status' }, isList: false };
}

function responseSchemaOf(node: Node, document: OpenApiDocument): unknown {
  const responses = document.objectAt(node.responses) ?? {};
  const status = ['200', '201', '202', ...Object.keys(responses).filter((it) => it.startsWith('2')), 'default'];
  const found = status.map((it) => (Object.hasOwn(responses, it) ? document.objectAt(responses[it]) : undefined));
  const content = document.objectAt(found.find((it) => it !== undefined)?.content) ?? {};
  const json = Object.entries(content).find(([type]) => /\bjson\b/i.test(type));
  return document.objectAt(json?.[1])?.schema;
}

/** The properties of a list's items; undefined for what is no list of objects. */
function itemFieldsOf(given: unknown, document: OpenApiDocument): Map<string, unknown> | undefined {
  const schema = document.objectAt(given);
  if (schema?.type !== 'array') return undefined;
  return new SchemaReader(document).propertiesOf(schema.items)?.properties;
}

function listOutput(given: string, each: string, schema: unknown, document: OpenApiDocument): Record<string, unknown> {
  const fields = fieldsOf(itemFieldsOf(schema, document) ?? new Map(), document);
  return { [toParameterName(given)]: { each, fields } };
}

function fieldsOf(properties: ReadonlyMap<string, unknown>, document: OpenApiDocument): Record<string, string> {
  const named = [...properties].filter(([name]) => /^[^'\\]{1,64}$/.test(name));
  const plain = named.filter(([, it]) => !['array', 'object'].includes(typeNameOf(it, document)));
  const chosen = (plain.length > 0 ? plain : named).slice(0, FIELDS_MAX);
  return Object.fromEntries(chosen.map(([name]) => [toParameterName(name), `$${stepTo(name)}`]));
}

function typeNameOf(given: unknown, document: OpenApiDocument): string {
  const schema = document.objectAt(given);
  if (typeof schema?.type === 'string') return schema.type;
  return isRecord(schema?.properties) || schema?.allOf !== undefined ? 'object' : '';
}

const stepTo = (name: string): string => (isUsableName(name) ? `.${name}` : `['${name}']`);

const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? (value as unknown[]) : []);
