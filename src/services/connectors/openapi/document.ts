/**
 * Reads OpenAPI documents. Only references within the document are followed: one to a file or to another server is
 * refused by its name. Nothing is resolved before it is asked for, since large documents have thousands of schemas.
 */
import { parseDocument } from 'yaml';
import type { Limits } from '../../../base/limits.ts';
import { parseJson } from '../../../base/text/json.ts';
import { isRecord } from '../../../base/text/values.ts';
import { PinError } from '../../pinned/pin-error.ts';

export type Node = Readonly<Record<string, unknown>>;

/** What a document refers to can't be used; the message names it. */
export class ReferenceProblem extends Error {}

/** References that one reference may lead to, one after the other. */
const HOPS_MAX = 16;
/** Characters of a reference that a message shows. */
const SHOWN_CHARS = 200;

/** Members of one object that are looked at. */
const MEMBERS_MAX = 200;

export class OpenApiDocument {
  readonly root: Node;
  /** The first members of objects: large ones are referred to many times. */
  readonly #members = new WeakMap<object, readonly (readonly [string, unknown])[]>();

  constructor(root: Node) {
    this.root = root;
  }

  /** The object that a value is or refers to; undefined if it is none. Throws ReferenceProblem. */
  objectAt(value: unknown): Node | undefined {
    let found = value;
    for (let hops = 0; isRecord(found) && typeof found.$ref === 'string'; hops++) {
      const ref = found.$ref.slice(0, SHOWN_CHARS);
      if (hops === HOPS_MAX) throw new ReferenceProblem(`${ref} refers to itself, or through too many others`);
      if (!ref.startsWith('#')) throw new ReferenceProblem(`${ref} is outside of the document, and is not read`);
      found = this.#valueAt(found.$ref);
      if (found === undefined) throw new ReferenceProblem(`${ref} is missing in the document`);
    }
    return isRecord(found) ? found : undefined;
  }

  /** The first members of an object. */
  membersOf(node: Node): readonly (readonly [string, unknown])[] {
    const known = this.#members.get(node);
    if (known) return known;
    // A pair for each of hundreds of thousands of members would take seconds.
    const names = Object.keys(node).slice(0, MEMBERS_MAX);
    const members = names.map((it) => [it, node[it]] as const);
    this.#members.set(node, members);
    return members;
  }

  #valueAt(ref: string): unknown {
    let found: unknown = this.root;
    for (const step of ref.slice(1).split('/').slice(1)) {
      const key = decoded(step).replaceAll('~1', '/').replaceAll('~0', '~');
      if (typeof found !== 'object' || found === null || !Object.hasOwn(found, key)) return undefined;
      found = (found as Record<string, unknown>)[key];
    }
    return found;
  }
}

function decoded(step: string): string {
  try {
    return decodeURIComponent(step);
  } catch {
    return step; // URIError: a percent sign of its own.
  }
}

/** The document in a JSON or YAML text. Throws PinError. */
export function readOpenApi(text: string, label: string, limits: Limits): OpenApiDocument {
  const root = /^\s*[{[]/.test(text) ? jsonIn(text, label) : yamlIn(text, label, limits);
  if (!isRecord(root)) throw new PinError([`${label}: is no OpenAPI document`]);
  const { openapi, swagger, paths } = root;
  if (typeof openapi !== 'string' || !/^3\.[01](\.|$)/.test(openapi)) {
    const found =
      typeof swagger === 'string' ? `Swagger ${swagger.slice(0, 20)}` : `openapi: ${String(openapi).slice(0, 20)}`;
    throw new PinError([`${label}: ${found} is not read; convert the document to OpenAPI 3.0 or 3.1`]);
  }
  if (!isRecord(paths)) throw new PinError([`${label}: has no paths`]);
  return new OpenApiDocument(root);
}

function jsonIn(text: string, label: string): unknown {
  try {
    return parseJson(text);
  } catch (error) {
    throw new PinError([`${label}: is no JSON: ${(error as Error).message.slice(0, SHOWN_CHARS)}`]);
  }
}

function yamlIn(text: string, label: string, { openApiYamlBytesMax }: Limits): unknown {
  if (text.length > openApiYamlBytesMax)
    throw new PinError([
      `${label}: is YAML of more than ${openApiYamlBytesMax} bytes, which would take minutes; convert it to JSON`,
    ]);
  try {
    // Documents have many aliases only if they are made to multiply.
    const document = parseDocument(text, { uniqueKeys: false, schema: 'core', logLevel: 'silent' });
    const [problem] = document.errors;
    if (problem) throw problem;
    return document.toJS({ maxAliasCount: 100 });
  } catch (error) {
    // A RangeError for what is nested deeper than the stack.
    throw new PinError([`${label}: is no YAML: ${(error as Error).message.slice(0, SHOWN_CHARS)}`]);
  }
}
