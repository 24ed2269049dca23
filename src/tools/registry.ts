/** Tools by name and alias, and the descriptions of them that clients get. */

import * as z from 'zod';
import type { Decision } from '../base/call.ts';
import { docsUrl } from '../base/runtime.ts';
import { safeText } from '../base/text/shown-text.ts';
import { mapTexts } from '../base/text/values.ts';
import type { PolicyQuestion } from '../policy/question.ts';
import { builtinTools } from './builtin.ts';
import type { ToolInfo } from './capability.ts';
import { type Schema, typeOf } from './declarations.ts';
import { commitTool, diffTool } from './kept/previews.ts';
import { undoTool } from './kept/undo.ts';
import { withoutNulls } from './nulls.ts';
import { type JsonSchema, toPortable, toShort, toStrict } from './portable.ts';
import { merged, parseForgiving, respelled, toldOf } from './spellings.ts';
import { type Alias, type NamedTool, type Tool, type ToolSpec, type Toolset, tierOfCall } from './tool.ts';

/** All built-in tools by name and alias. */
export function builtinToolset(): Toolset {
  const names = new Map<string, NamedTool>();
  for (const tool of Object.values(builtinTools) as unknown as Tool[]) {
    names.set(tool.name, namedTool(tool, tool));
    for (const alias of tool.aliases) names.set(alias.name, namedTool(tool, alias));
  }
  return names;
}

/** `alias` is the tool itself for its own name. */
function namedTool(tool: Tool, alias: Tool | Alias): NamedTool {
  const { input } = alias;
  const spellings = merged(tool.spellings, alias.spellings);
  const toInput = 'toInput' in alias ? alias.toInput : undefined;
  return {
    tool,
    parse(given, tell = () => {}) {
      const rename = (it: unknown) => respelled(withoutNulls(it, input), input.shape, spellings);
      const parsed = parseForgiving(given, { rename, parse: (it) => input.parse(it), tell });
      return input === tool.input && !toInput ? parsed : tool.input.parse(toInput ? toInput(parsed) : parsed);
    },
    warnings: (given) => toldOf(given, spellings),
    parameters: Object.keys(input.shape),
    shapeOf: (parameter) => {
      const member: z.ZodType | undefined = Object.hasOwn(input.shape, parameter) ? input.shape[parameter] : undefined;
      const shape = member ? typeOf(z.toJSONSchema(member, { io: 'input', unrepresentable: 'any' }) as Schema) : '';
      return shape.includes('{') ? shape : undefined;
    },
  };
}

/** The tools that `calls.undo`, `calls.diff` and `calls.commit` run; in no toolset. */
export const internalTools = {
  undo: internal(undoTool),
  diff: internal(diffTool),
  commit: internal(commitTool),
  /** For a preview of a command that a person would be asked about. */
  askedCommit: internal({ ...commitTool, asks: true }),
} as const;

function internal<I extends z.ZodObject, O extends z.ZodObject>(tool: ToolSpec<I, O>): NamedTool {
  return { tool: tool as unknown as Tool, parse: (input) => tool.input.parse(input), parameters: [] };
}

/** The distinct tools, sorted by name, without older versions of others. */
export const toolsOf = (toolset: Toolset): Tool[] =>
  [...new Set([...toolset.values()].map(({ tool }) => tool))].filter((it) => !it.isOlder);

const builtins = builtinToolset();

/** The effects of a call of a built-in tool, for the examples of policies; undefined for other tools. Throws ZodError. */
export function effectsOfBuiltin(name: string, input: unknown): Partial<PolicyQuestion> | undefined {
  const named = builtins.get(name);
  if (!named) return undefined;
  const { tool } = named;
  const { category, aliases } = tool;
  const parsed = named.parse(input);
  const effects = tool.effects(parsed as never);
  return { tool: tool.name, tier: tierOfCall(tool, parsed), category, aliases: aliases.map((it) => it.name), effects };
}

/** A tool in the format of MCP's `tools/list`. */
export interface McpTool {
  name: string;
  title: string;
  description: string;
  inputSchema: JsonSchema;
  annotations: ToolInfo['annotations'];
}

/** A tool of OpenAI's Responses API. */
export interface OpenAiTool {
  type: 'function';
  name: string;
  description: string;
  parameters: JsonSchema;
  strict: boolean;
}

/** A tool of OpenAI's Chat Completions API. */
export interface OpenAiChatTool {
  type: 'function';
  function: Omit<OpenAiTool, 'type'>;
}

/** A tool of Anthropic's Messages API. */
export interface AnthropicTool {
  name: string;
  description: string;
  input_schema: JsonSchema;
}

/** The formats of `tools.list`. */
export interface ToolFormats {
  ringfence: ToolInfo;
  mcp: McpTool;
  openai: OpenAiTool;
  'openai-chat': OpenAiChatTool;
  anthropic: AnthropicTool;
}
export type ToolFormat = keyof ToolFormats;

export const TOOL_FORMATS: readonly ToolFormat[] = Object.keys({
  ringfence: true,
  mcp: true,
  openai: true,
  'openai-chat': true,
  anthropic: true,
} satisfies Record<ToolFormat, true>) as ToolFormat[];

const isOurs = ({ name }: Pick<Tool, 'name'>): boolean => Object.hasOwn(builtinTools, name);

const inputSchemas = new WeakMap<Tool, object>();
const outputSchemas = new WeakMap<Tool, object>();

const inputSchemaOf = (tool: Tool): object =>
  shownOnce(tool, inputSchemas, () => tool.shown?.input ?? z.toJSONSchema(tool.input, { io: 'input' }));

/** JSON Schema of the output, if there is one. */
const outputSchemaOf = (tool: Tool): { outputSchema?: object } =>
  tool.shown && !tool.shown.output
    ? {}
    : {
        outputSchema: shownOnce(
          tool,
          outputSchemas,
          () => tool.shown?.output ?? z.toJSONSchema(tool.output, { io: 'output' }),
        ),
      };

/** The schema as callers see it, made once. */
function shownOnce(tool: Tool, schemas: WeakMap<Tool, object>, make: () => object): object {
  const known = schemas.get(tool);
  if (known) return known;
  const { $schema: _, ...schema } = make() as { $schema?: unknown };
  const safe = isOurs(tool) ? schema : (mapTexts(schema, safeText) as object);
  schemas.set(tool, safe);
  return safe;
}

/** The hints of MCP about what a tool does. */
function annotationsOf({ tier, destructive, idempotent }: Tool): ToolInfo['annotations'] {
  const readOnlyHint = tier === 'read_only';
  return {
    readOnlyHint,
    destructiveHint: !readOnlyHint && Boolean(destructive),
    idempotentHint: idempotent === true,
    openWorldHint: tier === 'execute' || tier === 'external_api',
  };
}

/** The tools that usually run before others, with those before them in turn, the nearest first. */
function allDependenciesOf(dependencies: readonly string[]): string[] {
  const found = new Set(dependencies);
  // A set gives what is added while it is gone through, too.
  for (const name of found) for (const it of builtins.get(name)?.tool.dependencies ?? []) found.add(it);
  return [...found];
}

export function toToolInfo(tool: Tool, decision: Decision): ToolInfo {
  const { name, category, tier, version, aliases, dependencies = [] } = tool;
  const toText = isOurs(tool) ? (it: string) => it : safeText;
  const capabilities = tool.capabilities.map((it) => ({ ...it, description: toText(it.description) }));
  return {
    name,
    title: toText(tool.title),
    description: toText(tool.summary),
    category,
    tier,
    version,
    inputSchema: inputSchemaOf(tool),
    ...outputSchemaOf(tool),
    annotations: annotationsOf(tool),
    aliases: aliases.map((it) => it.name),
    capabilities,
    dependencies,
    allDependencies: allDependenciesOf(dependencies),
    requiresConfirmation: decision === 'ask' || (decision === 'allow' && tool.asks === true),
    cacheable: tool.cacheable === true,
    retries: tool.retries,
    ...(isOurs(tool) && { documentation: docsUrl(`tools.md#${name}`) }),
    decision,
    auth: tool.auth?.(),
    cost: tool.cost,
    majors: tool.majors,
    deprecated: tool.deprecated,
  };
}

/** A tool in the format of a model provider's API or of MCP. */
export function toFormat(info: ToolInfo, format: ToolFormat): ToolFormats[ToolFormat] {
  if (format === 'ringfence') return info;
  const { name, title, description, annotations } = info;
  const inputSchema = Object.hasOwn(builtinTools, name) ? (toShort(info.inputSchema) as object) : info.inputSchema;
  switch (format) {
    case 'mcp':
      return { name, title, description, inputSchema: toPortable(inputSchema) as JsonSchema, annotations };
    case 'openai':
      return { type: 'function', name, description, ...openAiParameters(inputSchema) };
    case 'openai-chat':
      return { type: 'function', function: { name, description, ...openAiParameters(inputSchema) } };
    case 'anthropic':
      return { name, description, input_schema: toPortable(inputSchema) as JsonSchema };
    default:
      return format satisfies never;
  }
}

/** Strict if possible: the model then can't leave out, misname or invent a parameter. */
function openAiParameters(inputSchema: object): { parameters: JsonSchema; strict: boolean } {
  const portable = toPortable(inputSchema) as JsonSchema;
  const strict = toStrict(portable);
  return { parameters: strict ?? portable, strict: strict !== undefined };
}
