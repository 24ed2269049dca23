/** Converts the operations of a connector to tools. */

import * as z from 'zod';
import type { Effect } from '../../base/call.ts';
import { defaultLimits } from '../../base/limits.ts';
import { parseJson } from '../../base/text/json.ts';
import { isRecord } from '../../base/text/values.ts';
import { costTermsOf } from '../../tools/connected.ts';
import { boundedEffects } from '../../tools/declared-effects.ts';
import { withoutNulls } from '../../tools/nulls.ts';
import { runsBy } from '../../tools/runs.ts';
import { respelled } from '../../tools/spellings.ts';
import type { NamedTool, Toolset } from '../../tools/tool.ts';
import { defineTool, type Tool } from '../../tools/tool.ts';
import { calledNames, deprecationWarnings, describedAs, splitName, versionsOf } from '../../tools/versions.ts';
import { type JsonSchema, type ObjectSchema, toZod } from '../pinned/json-schema.ts';
import { hostOf } from '../secrets/secrets.ts';
import { amountOf, parseAmount } from './amount.ts';
import type { Connector } from './connector.ts';
import type { OperationFile } from './file.ts';
import { withPatterns } from './patterns.ts';
import { authOf } from './service-terms.ts';

/** Characters of the connector's hash in the version that is shown and recorded. */
const HASH_CHARS = 12;

export interface ToolsetOptions {
  /** Throws AUTH_REQUIRED if a secret of the connector is missing. */
  assertConfigured(): void;
}

/** The connector's tools by name, `connector__operation`, and by their aliases. */
export function toToolset(connector: Connector, options: ToolsetOptions): Toolset {
  return new Map(
    Object.entries(connector.operations).flatMap(([name, { aliases }], at): [string, NamedTool][] => {
      const { synonyms } = connector.operations[name] as OperationFile;
      const it = toNamed(toTool(connector, name, { at, options }), options, synonyms);
      const called = calledNames(it.tool.name, operationOf(it.tool), it.tool);
      return [
        ...called.map((own): [string, NamedTool] => [own, it]),
        ...aliases.map((alias): [string, NamedTool] => [alias.name, withValues(it, alias.with)]),
      ];
    }),
  );
}

/** The tool under a name that stands for values of parameters. */
const withValues = (named: NamedTool, values: Readonly<Record<string, unknown>>): NamedTool =>
  Object.keys(values).length === 0
    ? named
    : { ...named, parse: (input, tell) => named.parse(isRecord(input) ? { ...values, ...input } : input, tell) };

const operationOf = (tool: Tool): string => runsBy(tool, 'connectors')?.operation.operation ?? '';

function toNamed(tool: Tool, { assertConfigured }: ToolsetOptions, names: OperationFile['synonyms']): NamedTool {
  const [calledAs = tool.name] = calledNames(tool.name, operationOf(tool), tool);
  return {
    tool,
    warnings: () => deprecationWarnings(calledAs, tool.deprecated),
    parse(input) {
      assertConfigured();
      return tool.input.parse(respelled(withoutNulls(input, tool.input), tool.input.shape, { names }));
    },
    parameters: Object.keys(tool.input.shape),
  };
}

function toTool(
  connector: Connector,
  declared: string,
  { at, options }: { at: number; options: ToolsetOptions },
): Tool {
  const operation = connector.operations[declared] as OperationFile;
  const { name, major } = splitName(declared);
  const { title = name.replaceAll('_', ' '), description, request, aliases, timeoutMs, deprecated } = operation;
  const schema = inputSchemaOf(operation);
  const input = withOneOf(withPatterns(toZod(schema), schema.properties, defaultLimits), operation);
  const isReading = request.method === 'GET' || request.method === 'HEAD';
  const cost = costOf(operation);
  return defineTool({
    name: `${connector.name}__${name}`,
    title: `${connector.title}: ${title}`,
    // Marks the file's words, which would otherwise look like ours.
    summary: `(${connector.title}, by the connector \`${connector.name}\`) ${describedAs(description, deprecated)}`,
    version: `1.0.0+${connector.sha256.slice(0, HASH_CHARS)}${major === undefined ? '' : `.${major}`}`,
    ...versionsOf(declared, Object.keys(connector.operations)),
    deprecated,
    capabilities: [{ action: name, description: title }],
    category: connector.category,
    tier: 'external_api',
    ...authOf(connector.auth, options.assertConfigured),
    cost: costTermsOf(amountsOf(operation), isReading ? undefined : connector.billing),
    runs: {
      by: 'connectors',
      operation: { connector: connector.name, operation: declared, digest: connector.sha256 },
    },
    ...completedBy(connector, operation),
    asks: operation.approval === 'always',
    destructive: !isReading,
    // Others write what services hold: issues, messages, mail.
    untrusted: true,
    idempotent: isReading || operation.idempotency !== undefined,
    isExtra: at >= defaultLimits.connectorListedMax,
    effects: (given) => boundedEffects(effectsOf(connector, operation, given), defaultLimits),
    estimateCostUsd: cost,
    timeoutMs: () => timeoutMs,
    input,
    output: z.looseObject({}),
    shown: { input: schema, output: outputSchemaOf(operation) },
    examples: [],
    aliases: aliases.map((alias) => ({ name: alias.name, input, toInput: (it) => it })),
  }) as unknown as Tool;
}

/** Takes owner and name from a URL of the service's own server: api.github.com is github.com's. */
function completedBy({ base }: Connector, { remote: names, request }: OperationFile) {
  if (!names) return {};
  const remote: NonNullable<NonNullable<Tool['before']>['remote']> = {
    isNeeded: (input) => [names.owner, names.repo].some((it) => input[it] === undefined),
    complete(input, { url: text, branch }) {
      const url = new URL(text);
      const [, owner, repo] = /^\/(.+)\/([^/]+?)(?:\.git)?\/?$/.exec(url.pathname) ?? [];
      // Groups within groups: not every service has them.
      const isMany = owner?.includes('/') && !request.path.includes(`{%${names.owner}}`);
      const isOurs = new URL(base).hostname === url.hostname || new URL(base).hostname.endsWith(`.${url.hostname}`);
      if (!isOurs || isMany || owner === undefined || repo === undefined) return input;
      const known = {
        [names.owner]: owner,
        [names.repo]: repo,
        ...(names.branch && branch && { [names.branch]: branch }),
      };
      return { ...known, ...input };
    },
  };
  return { before: { remote } };
}

/** Parameters that a caller has to give. */
const requiredOf = ({ required, remote }: OperationFile): string[] =>
  required.filter((it) => !Object.values(remote ?? {}).includes(it));

function inputSchemaOf({ input: properties, ...operation }: OperationFile): ObjectSchema {
  // Removes undefined members.
  const plain = parseJson(JSON.stringify(properties)) as Record<string, JsonSchema>;
  return {
    type: 'object',
    properties: plain,
    required: requiredOf({ input: properties, ...operation }),
    additionalProperties: false,
  };
}

/** The input with the check that one of several parameters is given. */
function withOneOf(input: z.ZodObject, { oneOf }: OperationFile): z.ZodObject {
  if (!oneOf) return input;
  return input.refine((it) => oneOf.some((name) => it[name] !== undefined), `takes one of ${oneOf.join(', ')}`);
}

function outputSchemaOf({ output, paginate }: OperationFile): object {
  const properties = Object.entries(output).map(([name, field]) => {
    if (typeof field === 'string' || 'value' in field) return [name, {}];
    const described = field.description === undefined ? {} : { description: field.description };
    if (!('each' in field)) return [name, described];
    const items = Object.fromEntries(Object.keys(field.fields).map((it) => [it, {}]));
    return [name, { type: 'array', items: { type: 'object', properties: items }, ...described }];
  });
  const cut = paginate ? { truncated: { type: 'boolean', description: 'Whether there is more.' } } : {};
  return { type: 'object', properties: { ...Object.fromEntries(properties), ...cut } };
}

function effectsOf({ base }: Connector, { effects }: OperationFile, input: Record<string, unknown>): Effect[] {
  const read = effects.flatMap((it): Effect[] => {
    const parameter = it.kind === 'read' ? it.target.slice('${input.'.length, -1) : '';
    const target = input[parameter];
    return typeof target === 'string' ? [{ kind: 'read', target }] : [];
  });
  return [{ kind: 'connect', target: hostOf(new URL(base)) }, ...read];
}

function amountsOf({ cost, effects }: OperationFile): (number | string)[] {
  const spent = effects.flatMap((it) => (it.kind === 'spend' ? [it.usd] : []));
  return [...(cost === undefined ? [] : [cost]), ...spent];
}

/** The cost of a call: what its file says that it costs, and what it spends. */
function costOf(operation: OperationFile): ((input: Record<string, unknown>) => number) | undefined {
  const amounts = amountsOf(operation).map(parseAmount);
  if (amounts.length === 0) return undefined;
  return (input) => amounts.reduce((sum, it) => sum + amountOf(it, input), 0);
}
