/** Makes the request of an operation from its template and the parameters of a call. */
import { ToolError } from '../../base/errors.ts';
import type { Connector } from './connector.ts';
import { type OperationFile, PATH_PARAMETER } from './file.ts';
import { toForm } from './form.ts';
import { parametersIn, render, toText } from './template.ts';

/** A request without its secrets. */
export interface PlainRequest {
  readonly url: string;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
}

type Input = Readonly<Record<string, unknown>>;

/** Throws INPUT_INVALID for parameters that can't be sent. */
export function toRequest(
  { base, headers }: Pick<Connector, 'base' | 'headers'>,
  operation: OperationFile,
  { input, idempotencyKey }: { input: Input; idempotencyKey: string },
): PlainRequest {
  const { request, idempotency } = operation;
  const body = bodyOf(operation, input);
  const sent = { ...headers, ...renderHeaders(request.headers ?? {}, input) };
  return {
    url: `${base}${pathOf(request.path, input)}${queryOf(request, input)}`,
    method: request.method,
    headers: {
      ...(!Object.keys(sent).some((it) => it.toLowerCase() === 'accept') && { Accept: 'application/json' }),
      ...sent,
      ...(body && { 'Content-Type': body.type }),
      ...(idempotency && { [idempotency.header]: idempotencyKey }),
    },
    body: body?.text,
  };
}

/** A path with its parameters, each of which stays in its place: none can lead to another path. */
function pathOf(template: string, input: Input): string {
  return template.replaceAll(PATH_PARAMETER, (whole, many: string, name: string) => {
    if (name === 'secret' && !Object.hasOwn(input, name)) return whole;
    if (input[name] === undefined)
      throw invalid(name, 'is missing, and the repository of the workspace does not say it');
    const value = toText(input[name]);
    const segments = value.split('/');
    if (segments.some((it) => it === '' || it === '.' || it === '..') || (many === '' && segments.length > 1))
      throw invalid(name, `\`${value.slice(0, 100)}\` is no part of a path`);
    return segments.map(encodeURIComponent).join(many === '%' ? '%2F' : '/');
  });
}

/** The member of a query template whose parameter is an object: each of its members becomes a parameter of the query. */
const SPREAD = '...';

function queryOf({ query: template = {}, method }: OperationFile['request'], input: Input): string {
  const query = new URLSearchParams();
  const { [SPREAD]: spread, ...named } = template;
  const conditions = Object.entries((render(spread, { input }) ?? {}) as object);
  // Without conditions the request would concern everything.
  if (spread !== undefined && conditions.length === 0 && (method === 'PATCH' || method === 'DELETE'))
    throw invalid(parametersIn(spread).join(), 'takes at least one condition');
  for (const [key, value] of conditions) {
    if (Object.hasOwn(named, key)) throw invalid(key, 'is a parameter of the query already');
    query.append(key, toText(value));
  }
  for (const [key, it] of Object.entries(named)) {
    const value = render(it, { input });
    for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined) query.append(key, toText(one));
  }
  return query.size === 0 ? '' : `?${query.toString()}`;
}

function renderHeaders(template: Readonly<Record<string, string>>, input: Input): Record<string, string> {
  const rendered = Object.entries(template).flatMap(([name, it]) => {
    const value = render(it, { input });
    if (value === undefined) return [];
    const text = toText(value);
    if (!/^[\t\x20-\x7e]*$/.test(text)) throw invalid(name, 'takes printable ASCII, since it is sent as a header');
    return [[name, text] as const];
  });
  return Object.fromEntries(rendered);
}

function bodyOf({ request, input: schemas, upload }: OperationFile, input: Input) {
  const { body, json, form, path, query, headers } = request;
  const used = new Set([
    ...[...path.matchAll(PATH_PARAMETER)].map((it) => it[2]),
    ...parametersIn(query),
    ...parametersIn(headers),
    upload?.from,
  ]);
  const rest = () => Object.fromEntries(Object.keys(schemas).flatMap((it) => (used.has(it) ? [] : [[it, input[it]]])));
  const isForm = form !== undefined || body === 'form';
  if (!isForm && json === undefined && body === undefined) return undefined;
  const value = body === undefined ? render(form ?? json, { input }) : rest();
  return isForm
    ? { type: 'application/x-www-form-urlencoded', text: toForm(value as Input) }
    : { type: 'application/json', text: JSON.stringify(value ?? {}) };
}

const invalid = (name: string, why: string): ToolError => new ToolError('INPUT_INVALID', `${name}: ${why}`);
