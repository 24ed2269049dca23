/** An OpenAPI document as large services publish them: many operations, schemas that refer to each other, examples. */

const TEXT =
  'Returns the items that the caller may see, newest first, and says by a header whether there are more of them. ';

/** A document of about `bytes` bytes as JSON, with an operation and a schema for each 9 kB. */
export function openApiDocument(bytes: number): string {
  const count = Math.ceil(bytes / PART_BYTES);
  const paths = Object.fromEntries(
    Array.from({ length: count }, (_, at) => [`/repos/{owner}/{repo}/things-${at}/{thing_id}`, pathItem(at, count)]),
  );
  const schemas = Object.fromEntries(Array.from({ length: count }, (_, at) => [`thing-${at}`, schema(at, count)]));
  return JSON.stringify({
    openapi: '3.0.3',
    info: { title: 'Large API', version: '1' },
    servers: [{ url: 'https://api.large.example' }],
    security: [{ token: [] }],
    paths,
    components: { securitySchemes: { token: { type: 'http', scheme: 'bearer' } }, schemas },
  });
}

/** Bytes of a path with its operations and of a schema, as JSON. */
const PART_BYTES = 8_900;

function pathItem(at: number, count: number): object {
  const names = ['owner', 'repo', 'thing_id'];
  const parameters = names.map((name) => ({
    ...{ name, in: 'path', required: true, description: TEXT },
    schema: { type: 'string' },
  }));
  const query = Array.from({ length: 6 }, (_, n) => ({
    ...{ name: `filter_${n}`, in: 'query', description: TEXT },
    schema: { type: 'string', enum: ['open', 'closed', 'all'] },
  }));
  const ref = { $ref: `#/components/schemas/thing-${at}` };
  const example = { id: at, items: Array.from({ length: 30 }, (_, n) => ({ id: n, title: `Title of the item ${n}` })) };
  const responses = { 200: { description: TEXT, content: { 'application/json': { schema: ref, example } } } };
  const requestBody = { required: true, content: { 'application/json': { schema: ref } } };
  const other = { $ref: `#/components/schemas/thing-${(at + 1) % count}` };
  return {
    parameters,
    get: { operationId: `things/get-${at}`, summary: TEXT, description: TEXT.repeat(5), parameters: query, responses },
    patch: {
      ...{ operationId: `things/update-${at}`, summary: TEXT, description: TEXT.repeat(5), requestBody },
      responses: { 200: { description: TEXT, content: { 'application/json': { schema: other } } } },
    },
  };
}

function schema(at: number, count: number): object {
  const plain = Array.from({ length: 20 }, (_, n) => [
    `field_${n}`,
    { type: 'string', nullable: true, description: TEXT },
  ]);
  const next = { $ref: `#/components/schemas/thing-${(at + 7) % count}` };
  return {
    type: 'object',
    required: ['field_0', 'next'],
    properties: { ...Object.fromEntries(plain), next, all: { type: 'array', items: next } },
  };
}
