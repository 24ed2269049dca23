/** The files of connectors: one service, its secret, and the operations that become tools. */
import * as z from 'zod';
import { defaultLimits } from '../../base/limits.ts';
import { headerName } from '../../base/text/header-name.ts';
import { CATEGORIES } from '../../tools/capability.ts';
import { deprecationSchema, mixedName, VERSIONED_NAME } from '../../tools/versions.ts';
import { type JsonSchema, jsonSchema } from '../pinned/json-schema.ts';
import { secretName } from '../secrets/secret-files.ts';
import { problemOfTransport } from '../secrets/secrets.ts';
import { parseAmount } from './amount.ts';
import { parseJsonPath } from './json-path.ts';
import { patternProblem, patternsIn } from './patterns.ts';
import { parametersIn, strayReferenceIn } from './template.ts';

const { connectorOperationsMax, connectorPagesMax, connectorRetriesMax } = defaultLimits;

const text = (max: number) => z.string().min(1).max(max);
/** A name without double underscores: in `connector__operation` they separate the connector's name. */
const name = (max: number) =>
  text(max).regex(/^[a-z][a-z0-9]*(_[a-z0-9]+)*$/, 'takes lower-case letters, digits and single _, a letter first');

const headers = z.record(headerName, text(2048)).refine((it) => Object.keys(it).length <= 32, 'at most 32 headers');
const parameterName = z.string().regex(/^[A-Za-z][A-Za-z0-9_]{0,63}$/, 'takes letters, digits and _, 64 at most');

export const httpUrl = z
  .url({ protocol: /^https?$/ })
  .max(2048)
  .refine((it) => !/[?#]/.test(it), 'takes no query and no fragment')
  .refine((it) => URL.parse(it)?.username === '', 'holds no name or password; use auth');
/** A destination of secrets. */
const base = httpUrl.refine((it) => !URL.parse(it) || problemOfTransport(new URL(it)) === undefined, {
  error: 'takes an https URL, or http://127.0.0.1',
});

const setup = z
  .url({ protocol: /^https$/ })
  .max(512)
  .optional();
const secret = secretName.describe('Name of the secret: `ringfence secret set NAME`.');
const live = z
  .array(text(32))
  .max(8)
  .optional()
  .describe('Beginnings of keys of real accounts, which are refused unless the connector was added with --live.');
const auth = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('none') }),
  z.strictObject({ kind: z.literal('bearer'), secret, setup, live }),
  z.strictObject({
    kind: z.literal('header'),
    header: headerName,
    prefix: z.string().max(64).default(''),
    secret,
    setup,
    live,
  }),
  z.strictObject({ kind: z.literal('basic'), user: text(256).optional(), secret, setup, live }),
  z.strictObject({ kind: z.literal('query'), param: text(64), secret, setup, live }),
  z.strictObject({ kind: z.literal('path'), secret, setup }),
  z.strictObject({
    kind: z.literal('oauth2_client'),
    tokenUrl: base,
    clientId: text(256),
    scope: text(1024).optional(),
    secret,
    setup,
  }),
]);
export type Auth = z.output<typeof auth>;

const checkedBy = (parse: (text: string) => unknown) =>
  text(512).superRefine((it, context) => {
    try {
      parse(it);
    } catch (error) {
      context.addIssue({ code: 'custom', message: (error as Error).message });
    }
  });

const jsonPath = checkedBy(parseJsonPath);
/** `$.path`, `status` or `headers.NAME`. */
const source = checkedBy((it) => it === 'status' || /^headers\.[a-z0-9-]{1,64}$/.test(it) || parseJsonPath(it));
const field = z.union([
  source,
  z.strictObject({
    from: source,
    prefix: text(64).optional().describe('Stands before the text, unless it begins so.'),
    words: z.record(text(64), text(64)).optional().describe("Other words for the service's own."),
    description: text(512).optional(),
  }),
  z.strictObject({ value: text(128).describe('A text of our own, for what the service leaves unsaid.') }),
  z.strictObject({
    each: jsonPath.describe('A list in the answer.'),
    fields: z.record(parameterName, jsonPath),
    description: text(512).optional(),
  }),
]);
export type OutputField = z.output<typeof field>;

const amount = z.union([z.number().min(0).max(1000), checkedBy(parseAmount)]);
const effect = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.literal('connect') }),
  z.strictObject({ kind: z.literal('spend'), usd: amount }),
  z.strictObject({
    kind: z.literal('read'),
    target: z.string().regex(/^\$\{input\.[A-Za-z]\w*\}$/, 'takes ${input.NAME}'),
  }),
]);

const billing = z.strictObject({
  url: z
    .url({ protocol: /^https$/ })
    .max(512)
    .optional()
    .describe('Page on which a person sees the charges.'),
  freeCalls: z.int().min(1).optional().describe('Calls a month that the service gives away.'),
});
export type Billing = z.output<typeof billing>;

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'] as const;
const request = z.strictObject({
  method: z.enum(METHODS),
  path: text(1024).regex(/^\/[^?#\s]*$/, 'begins with / and holds no query'),
  query: z.record(text(128), z.unknown()).optional(),
  headers: headers.optional(),
  body: z.enum(['json', 'form']).optional().describe('Sends all parameters that nothing else names.'),
  json: z.unknown().optional(),
  form: z.record(text(128), z.unknown()).optional(),
});

const paginate = z.strictObject({
  kind: z.enum(['cursor', 'page', 'link']),
  param: text(64).optional(),
  from: jsonPath.optional(),
  more: jsonPath.optional(),
  maxPages: z.int().min(1).max(connectorPagesMax).default(5),
});

/** A further name; as an object, one that stands for values of parameters that its caller leaves out. */
const alias = z.union([
  name(48).transform((it) => ({ name: it, with: {} })),
  z.strictObject({
    name: name(48),
    with: z.record(parameterName, z.union([z.string().max(1024), z.number(), z.boolean()])),
  }),
]);

const operation = z.strictObject({
  title: text(128).optional(),
  description: text(2048),
  aliases: z.array(alias).max(8).default([]),
  request,
  input: z.record(parameterName, jsonSchema).default({}),
  synonyms: z
    .record(parameterName, parameterName)
    .default({})
    .describe('Other names that callers know parameters by, each with the name here.'),
  required: z.array(parameterName).max(64).default([]),
  remote: z
    .strictObject({ owner: parameterName, repo: parameterName, branch: parameterName.optional() })
    .optional()
    .describe("Parameters that may be left out: the remote of the workspace's repository says them."),
  oneOf: z.array(parameterName).min(2).max(8).optional().describe('Parameters of which at least one is given.'),
  output: z.record(parameterName, field),
  effects: z.array(effect).max(8).default([]),
  cost: amount.optional().describe('Dollars that a call costs.'),
  approval: z.enum(['policy', 'always']).default('policy'),
  idempotency: z.strictObject({ header: headerName, from: z.literal('callId') }).optional(),
  retry: z
    .strictObject({
      on: z.array(z.int().min(400).max(599)).max(16),
      honour: z.literal('Retry-After').optional(),
      max: z.int().min(0).max(connectorRetriesMax),
    })
    .optional(),
  paginate: paginate.optional(),
  success: z
    .strictObject({ when: jsonPath, reason: jsonPath })
    .optional()
    .describe('For services that answer 200 to what failed: the field that is true if it did not, and the reason.'),
  hints: z
    .record(z.string().regex(/^[45]\d\d$/, 'is a status from 400 to 599'), text(512))
    .optional()
    .describe('What a person can do about an answer with this status.'),
  upload: z
    .strictObject({ from: parameterName, as: parameterName, nameAs: parameterName })
    .optional()
    .describe('Gives the template the files below the path in a parameter, and the name of the folder.'),
  timeoutMs: z.int().min(100).max(300_000).optional(),
  deprecated: deprecationSchema.optional(),
});
export type OperationFile = z.output<typeof operation>;

export const connectorSchema = z
  .strictObject({
    connector: name(24),
    title: text(128).optional(),
    billing: billing.optional(),
    category: z.enum(CATEGORIES).default('service'),
    base: base.optional(),
    private: z.boolean().default(false).describe('Whether the service may be on this machine or its networks.'),
    auth: z.union([auth, z.array(auth).min(1).max(3)]).default({ kind: 'none' }),
    headers: headers.default({}),
    health: z.strictObject({ path: text(512).regex(/^\//) }).optional(),
    operations: z
      .record(
        text(32).regex(VERSIONED_NAME, 'takes lower-case letters, digits and single _, a letter first, and @MAJOR'),
        operation,
      )
      .refine((it) => mixedName(Object.keys(it)) === undefined, 'an operation stands with a version and without')
      .refine((it) => Object.keys(it).length >= 1, 'names at least one operation')
      .refine((it) => Object.keys(it).length <= connectorOperationsMax, {
        error: `has more than ${connectorOperationsMax} operations; cut it down`,
      }),
  })
  .superRefine(({ auth: given, operations }, context) => {
    const isSecretPath = [given].flat().some((it) => it.kind === 'path');
    for (const [key, it] of Object.entries(operations)) {
      const complain = (path: PropertyKey[], message: string) =>
        context.addIssue({ code: 'custom', path: ['operations', key, ...path], message });
      checkOperation(it, { complain, isSecretPath });
    }
  });
export type ConnectorFile = z.output<typeof connectorSchema>;

/** The parameters in a path: `{name}` is one segment, `{+name}` may hold several, `{%name}` too, as one; `{secret}` is a secret. */
export const PATH_PARAMETER = /\{([+%]?)([A-Za-z]\w*)\}/g;

interface Checking {
  readonly isSecretPath: boolean;
  complain(path: PropertyKey[], message: string): void;
}

/** Complains about what no schema can say: references to parameters, and keys that exclude each other. */
function checkOperation(it: OperationFile, { complain, isSecretPath }: Checking): void {
  const known = (parameter: string): boolean =>
    Object.hasOwn(it.input, parameter) || parameter === it.upload?.as || parameter === it.upload?.nameAs;
  const check = (path: PropertyKey[], names: readonly string[]) => {
    for (const parameter of names) if (!known(parameter)) complain(path, `the input has no parameter ${parameter}`);
  };
  for (const alias of it.aliases) check(['aliases'], Object.keys(alias.with));
  const { path, body, json, form, query, headers: sent } = it.request;
  for (const [, , parameter = ''] of path.matchAll(PATH_PARAMETER)) {
    if (parameter === 'secret' && isSecretPath) continue;
    check(['request', 'path'], [parameter]);
    if (known(parameter) && !it.required.includes(parameter))
      complain(['request', 'path'], `${parameter} is in the path, and so it has to be in \`required\``);
  }
  if ([body, json, form].filter((one) => one !== undefined).length > 1)
    complain(['request'], 'takes one of body, json and form');
  if (it.request.method === 'GET' && (body ?? json ?? form) !== undefined)
    complain(['request'], 'a GET request has no body');
  for (const [key, template] of Object.entries({ json, form, query, headers: sent })) {
    check(['request', key], parametersIn(template));
    const stray = strayReferenceIn(template);
    if (stray !== undefined) complain(['request', key], `${stray} is no reference; write \${input.NAME}`);
  }
  check(['required'], it.required);
  check(['synonyms'], Object.values(it.synonyms));
  check(['oneOf'], it.oneOf ?? []);
  if (it.upload) check(['upload', 'from'], [it.upload.from]);
  for (const given of [it.cost, ...it.effects.flatMap((one) => (one.kind === 'spend' ? [one.usd] : []))])
    if (typeof given === 'string') check(['cost'], parametersIn(given));
  if (it.paginate && it.paginate.kind !== 'link' && it.paginate.param === undefined)
    complain(['paginate', 'param'], 'is missing: the query parameter of the next page');
  if (it.paginate?.kind === 'cursor' && it.paginate.from === undefined)
    complain(['paginate', 'from'], 'is missing: the path of the next cursor');
  for (const [parameter, schema] of Object.entries(it.input)) {
    for (const pattern of patternsIn(schema)) {
      const problem = patternProblem(pattern);
      if (problem !== undefined) complain(['input', parameter, 'pattern'], problem);
    }
    if ((schema as JsonSchema).description === undefined)
      complain(['input', parameter], 'has no description, which models call it by');
  }
}
