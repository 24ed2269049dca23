/** Connector files made of OpenAPI documents: what they hold, and what hostile documents can't do. */
import { describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { defaultLimits as limits } from '../../../src/base/limits.ts';
import { type Connector, FILE, toConnector } from '../../../src/services/connectors/connector.ts';
import { writeConnector } from '../../../src/services/connectors/openapi/connector-text.ts';
import { readOpenApi } from '../../../src/services/connectors/openapi/document.ts';
import { toToolset } from '../../../src/services/connectors/toolset.ts';

const label = 'shop.json';
const write = (document: unknown, only: readonly string[] = [], text = JSON.stringify(document)) =>
  writeConnector(readOpenApi(text, label, limits), { only, label, limits });
/** The connector of what is written, which has to be valid. */
const made = (document: unknown, only: readonly string[] = []): Connector => {
  const connector = toConnector({ [FILE]: write(document, only).text }, limits, label);
  toToolset(connector, { assertConfigured() {} });
  return connector;
};

const ISSUE = {
  type: 'object',
  required: ['title'],
  properties: {
    id: { type: 'integer', readOnly: true },
    title: { type: 'string', maxLength: 256, description: 'Title\n  of it.' },
    state: { $ref: '#/components/schemas/State' },
    labels: { type: 'array', items: { type: 'string' } },
    parent: { $ref: '#/components/schemas/Issue' },
    'odd-name': { type: 'string', nullable: true },
    code: { type: ['string', 'null'], pattern: '^(a+)+$' },
    mirror: { type: 'string', pattern: '^(?=a)(a)\\1$' },
  },
};
const SHOP = {
  openapi: '3.0.3',
  info: { title: 'My Shop API', version: '1' },
  servers: [{ url: 'https://{region}.shop.example/v1/', variables: { region: { default: 'eu' } } }],
  security: [{ key: [] }],
  paths: {
    '/issues': {
      parameters: [{ name: 'page[size]', in: 'query', schema: { type: 'integer', maximum: 100 } }],
      get: {
        operationId: 'issues/list',
        summary: 'List issues.',
        responses: {
          200: {
            content: {
              'application/json': { schema: { type: 'array', items: { $ref: '#/components/schemas/Issue' } } },
            },
          },
        },
      },
      post: {
        operationId: 'issues/create',
        description: 'Create an issue.',
        deprecated: true,
        parameters: [
          { name: 'Authorization', in: 'header', schema: { type: 'string' } },
          { name: 'X-Trace', in: 'header', description: 'Trace.', schema: { type: 'string' } },
          { name: 'session', in: 'cookie', schema: { type: 'string' } },
        ],
        requestBody: {
          required: true,
          content: { 'application/json': { schema: { $ref: '#/components/schemas/Issue' } } },
        },
        responses: { '201': { $ref: '#/components/responses/Made' } },
      },
    },
    '/issues/{issue-id}': {
      get: { responses: { default: { description: 'none' } } },
      delete: { operationId: 'deleteIssue', responses: {} },
    },
    '/upload': { post: { operationId: 'upload', requestBody: { content: { 'multipart/form-data': {} } } } },
    '/token': {
      post: {
        operationId: 'makeToken',
        requestBody: {
          content: {
            'application/x-www-form-urlencoded': {
              schema: {
                allOf: [
                  { properties: { a: { type: 'string' } } },
                  { properties: { b: { oneOf: [{ type: 'string' }, { type: 'integer' }] } } },
                ],
              },
            },
          },
        },
      },
    },
  },
  components: {
    securitySchemes: { key: { type: 'apiKey', in: 'header', name: 'X-Key' }, login: { type: 'oauth2', flows: {} } },
    responses: { Made: { content: { 'application/json': { schema: { $ref: '#/components/schemas/Issue' } } } } },
    schemas: { Issue: ISSUE, State: { type: 'string', enum: ['open', 'closed'] } },
  },
};

describe('a document', () => {
  test('becomes a connector with the same requests, schemas and outputs', () => {
    const { name, base, auth, operations } = made(SHOP);
    expect({ name, base, auth }).toEqual({
      name: 'my_shop_api',
      base: 'https://eu.shop.example/v1',
      auth: [{ kind: 'header', header: 'X-Key', prefix: '', secret: 'my_shop_api_key' }],
    });
    expect(Object.keys(operations)).toEqual([
      ...['issues_list', 'issues_create', 'get_issues_issue_id', 'delete_issue', 'upload', 'make_token'],
    ]);
    expect(operations.issues_list).toMatchObject({
      description: 'List issues.',
      request: { method: 'GET', path: '/issues', query: { 'page[size]': '${input.page_size}' } },
      input: { page_size: { type: 'integer', maximum: 100, description: 'page[size]' } },
      approval: 'policy',
      output: { items: { each: '$', fields: { id: '$.id', title: '$.title', odd_name: "$['odd-name']" } } },
    });
    expect(operations.issues_create).toMatchObject({
      request: {
        method: 'POST',
        headers: { 'X-Trace': '${input.X_Trace}' },
        json: { title: '${input.title}', state: '${input.state}', 'odd-name': '${input.odd_name}' },
      },
      input: {
        title: { type: 'string', maxLength: 256, description: 'Title of it.' },
        state: { type: 'string', enum: ['open', 'closed'] },
        labels: { type: 'array', items: { type: 'string' } },
        odd_name: { anyOf: [{ type: 'string' }, { type: 'null' }] },
        code: { anyOf: [{ type: 'string', pattern: '^(a+)+$' }, { type: 'null' }] },
        mirror: { type: 'string' },
      },
      required: ['title'],
      approval: 'always',
      output: { id: '$.id', title: '$.title' },
    });
    expect(operations.issues_create?.input).not.toHaveProperty('id');
    expect(operations.issues_create?.input).not.toHaveProperty('Authorization');
    expect(operations.get_issues_issue_id?.request.path).toBe('/issues/{issue_id}');
    expect(operations.make_token).toMatchObject({
      request: { form: { a: '${input.a}', b: '${input.b}' } },
      input: { b: { anyOf: [{ type: 'string' }, { type: 'integer' }] } },
    });
  });

  test('a connector made of a document notes beside each operation what was left out', () => {
    const { text, operations, total, leftOut } = write(SHOP);
    expect({ operations, total, leftOut }).toEqual({ operations: 6, total: 6, leftOut: [] });
    expect(text).toMatch(/^# Made of an OpenAPI document\. Cut it down/);
    expect(text).toContain('# other ways of signing in: login');
    expect(text).toMatch(
      /# POST \/issues\n +# left out or to look at: .*parameters in cookies.*patterns that can not be checked in linear time.*it is deprecated/,
    );
    expect(text).toMatch(/# GET \/issues\n +# left out or to look at: .*pages: see `paginate`/);
    expect(text).toMatch(/# POST \/upload\n +# left out or to look at: the body, which is multipart\/form-data/);
  });

  test('gives the same file from YAML as from JSON', () => {
    expect(write(SHOP, [], stringify(SHOP)).text).toBe(write(SHOP).text);
  });

  test.each([
    [['issues/*'], ['issues_list', 'issues_create']],
    [['GET'], ['issues_list', 'get_issues_issue_id']],
    [
      ['DELETE /issues/*', 'upload'],
      ['delete_issue', 'upload'],
    ],
    [['/token'], ['make_token']],
  ])('gives with --operations %j only %j', (only, names) => {
    expect(Object.keys(made(SHOP, only).operations)).toEqual(names);
  });

  test('a pattern that matches no operation of a document is refused by its text', () => {
    expect(() => write(SHOP, ['nothing*'])).toThrow(
      '--operations nothing*: matches none of the 6 operations of shop.json',
    );
  });

  test('without https says that the base has to be written', () => {
    const { text } = write({ ...SHOP, servers: [{ url: 'http://shop.example' }] });
    expect(text).toContain('# the document names no https server: write `base`, or add it with --base URL');
  });
});

test.each([
  ['{"swagger":"2.0","paths":{}}', 'shop.json: Swagger 2.0 is not read; convert the document to OpenAPI 3.0 or 3.1'],
  ['{"openapi":"3.1.0"}', 'has no paths'],
  ['{"openapi":"3.1.0","paths":{}}', 'has no operations'],
  ['{"openapi":', 'is no JSON'],
  ['a: [', 'is no YAML'],
  ['just words', 'is no OpenAPI document'],
  [`a: &a [${'*a,'.repeat(10)}]`, 'is no'],
])('the text %j is refused: %s', (text, reason) => {
  expect(() => write(undefined, [], text)).toThrow(reason);
});

/** A document whose one operation takes the schema as its parameter. */
const taking = (schema: unknown, more: object = {}) => ({
  openapi: '3.1.0',
  info: { title: 'T' },
  servers: [{ url: 'https://t.example' }],
  paths: { '/x': { get: { operationId: 'x', parameters: [{ name: 'p', in: 'query', schema }] } } },
  ...more,
});

describe('a hostile document', () => {
  test.each([
    [
      'https://evil.example/schema.json',
      'https://evil.example/schema.json is outside of the document, and is not read',
    ],
    ['file:///etc/passwd', 'file:///etc/passwd is outside of the document, and is not read'],
    ['../other.yaml#/a', '../other.yaml#/a is outside of the document, and is not read'],
    ['#/nowhere', '#/nowhere is missing in the document'],
    ['#/__proto__/x', '#/__proto__/x is missing in the document'],
    ['#/constructor', '#/constructor is missing in the document'],
    ['#/a', '#/a refers to itself, or through too many others'],
  ])('a document that refers to %s has its operation left out by that name', ($ref, why) => {
    const document = taking({ $ref }, { a: { $ref: '#/b' }, b: { $ref: '#/a' } });
    expect(() => write(document)).toThrow(`no operation can be taken over: GET /x: ${why}`);
    const both = { ...document, paths: { ...document.paths, '/y': { get: { operationId: 'y' } } } };
    expect(write(both)).toMatchObject({ operations: 1, leftOut: [{ operation: 'GET /x', why }] });
  });

  test('a document whose schemas hold themselves is cut at a depth', () => {
    const Node = {
      type: 'object',
      properties: {
        next: { $ref: '#/components/schemas/Node' },
        all: { type: 'array', items: { $ref: '#/components/schemas/Node' } },
      },
    };
    const body = { content: { 'application/json': { schema: { $ref: '#/components/schemas/Node' } } } };
    const paths = { '/x': { post: { operationId: 'x', requestBody: body } } };
    const document = { ...taking({}), paths, components: { schemas: { Node } } };
    expect(JSON.stringify(made(document).operations.x?.input).length).toBeLessThan(20_000);
    expect(write(document).text).toContain('what is nested deeper');
  });

  test('a document whose alternatives multiply at each level is cut within seconds', () => {
    const schemas = Object.fromEntries(
      Array.from({ length: 8 }, (_, level) => {
        const next = { $ref: `#/components/schemas/L${level + 1}` };
        return [`L${level}`, { anyOf: Array(16).fill(next) as object[], allOf: [next, next] }];
      }),
    );
    const document = taking(
      { $ref: '#/components/schemas/L0' },
      { components: { schemas: { ...schemas, L8: { type: 'string' } } } },
    );
    const startedMs = performance.now();
    made(document);
    expect(performance.now() - startedMs).toBeLessThan(5_000);
  });

  test('a document with huge lists of values and members is read within seconds', () => {
    const values = Array.from({ length: 300_000 }, (_, at) => `value-${at}`);
    const properties = Object.fromEntries(values.map((it) => [it.replace('-', '_'), { type: 'string' }]));
    const Big = { type: 'object', properties: { e: { enum: values }, ...properties } };
    const body = { content: { 'application/json': { schema: { $ref: '#/components/schemas/Big' } } } };
    const post = { requestBody: body, responses: { 200: body } };
    const paths = Object.fromEntries(Array.from({ length: 60 }, (_, at) => [`/${at}`, { post }]));
    const document = readOpenApi(
      JSON.stringify({ ...taking({}), paths, components: { schemas: { Big } } }),
      label,
      limits,
    );
    const startedMs = performance.now();
    const { text, operations } = writeConnector(document, { only: [], label, limits });
    expect(performance.now() - startedMs).toBeLessThan(5_000);
    expect(operations).toBeGreaterThan(1);
    expect(Buffer.byteLength(text)).toBeLessThan(limits.connectorFileBytesMax);
    expect(text).toContain('lists of more than 256 values');
  });

  test('a deeply nested document is read or refused, but ends nothing', () => {
    const deep = `${'{"type":"array","items":'.repeat(50_000)}{}${'}'.repeat(50_000)}`;
    const text = JSON.stringify(taking('DEEP')).replace('"DEEP"', deep);
    expect(writeConnector(readOpenApi(text, label, limits), { only: [], label, limits }).operations).toBe(1);
    expect(() => readOpenApi(`a: ${'['.repeat(100_000)}`, label, limits)).toThrow('is no YAML');
  });

  test('a document with keys of every object of JavaScript changes no other object', () => {
    const text = JSON.stringify(taking('PROTO')).replace(
      '"PROTO"',
      '{"type":"object","properties":{"__proto__":{"type":"string"},"constructor":{"type":"string"},"toString":{}}}',
    );
    const body = text
      .replace('"get"', '"post"')
      .replace(
        /"parameters":\[\{"name":"p","in":"query","schema":(.*?)\}\]\}/,
        '"requestBody":{"content":{"application/json":{"schema":$1}}}}',
      );
    const { text: written } = write(undefined, [], body);
    expect(toConnector({ [FILE]: written }, limits, label).operations.x?.input).toEqual({});
    expect(({} as Record<string, unknown>).type).toBeUndefined();
  });

  test('a document with line ends, quotes and directions in its texts adds no line to the file', () => {
    const evil = 'x\'\n  evil: { a: 1 }\r\n\u2028#\u202e "${input.y}" *a &b !!js/function';
    const document = {
      ...taking({ type: 'string', description: evil, enum: [evil] }),
      info: { title: evil },
      paths: {
        '/x': { get: { operationId: evil, summary: evil, parameters: [{ name: evil, in: 'query', schema: {} }] } },
      },
      components: { securitySchemes: { [evil]: { type: evil } } },
    };
    const connector = made(document);
    expect(Object.keys(connector.operations)).toEqual(['x_evil_a_1_input_y_a_b_js']);
  });

  test('a document with words of YAML as names gives a file that keeps them as names', () => {
    const parameters = ['null', 'true', 'on', 'y'].map((name) => ({
      name,
      in: 'query',
      schema: { enum: ['no', '1', 'null'] },
    }));
    const { operations } = made({ ...taking({}), paths: { '/x': { get: { operationId: 'null', parameters } } } });
    expect(Object.keys(operations)).toEqual(['null']);
    expect(Object.keys(operations.null?.input ?? {})).toEqual(['null', 'true', 'on', 'y']);
    expect(operations.null?.input.on).toMatchObject({ enum: ['no', '1', 'null'] });
  });

  test('a document with more operations than a connector may have gives the first ones, and counts all', () => {
    const paths = Object.fromEntries(Array.from({ length: 200 }, (_, at) => [`/p${at}`, { get: {} }]));
    const { operations, total, leftOut } = write({ ...taking({}), paths });
    expect({ operations, total, left: leftOut.length }).toEqual({ operations: 64, total: 200, left: 136 });
    expect(leftOut[0]?.why).toBe('a connector has at most 64');
  });
});
