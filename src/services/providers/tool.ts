/**
 * Converts a provider's tool to one of ours: its description for callers, the part of its input that is checked here, and the effects that
 * policies judge.
 */

import * as z from 'zod';
import type { Effect } from '../../base/call.ts';
import type { Limits } from '../../base/limits.ts';
import { providedData } from '../../base/provided-data.ts';
import { isRecord } from '../../base/text/values.ts';
import { declarationsOf } from '../../tools/declarations.ts';
import { boundedEffects } from '../../tools/declared-effects.ts';
import { TOOL_FORMATS, toFormat, toToolInfo } from '../../tools/registry.ts';
import type { NamedTool } from '../../tools/tool.ts';
import { defineTool, type Tool } from '../../tools/tool.ts';
import { deprecationWarnings, describedAs } from '../../tools/versions.ts';
import { hostOf } from '../secrets/secrets.ts';
import type { ListedTools, ToolDefinition } from './messages.ts';
import type { ProviderSettings } from './settings.ts';
import { toDefinition } from './text.ts';

export interface ToolOptions {
  readonly settings: ProviderSettings;
  /** The callers' name of the tool. */
  readonly name: string;
  readonly definition: ToolDefinition;
  readonly digest: string;
  readonly limits: Limits;
  /** Throws TOOL_DISABLED if the server's tool is no longer the accepted one. */
  assertAccepted(): void;
}

/** The tool as it appears in a toolset. The server's hints about effects are not trusted. */
export function toNamedTool({ settings, name, definition, digest, limits, assertAccepted }: ToolOptions): NamedTool {
  const configured = configOf(settings, definition.name);
  const { tier = settings.tier, effects: named = {}, deprecated } = configured;
  const { inputSchema, title, description } = definition;
  const input = inputOf(inputSchema, { limits, targets: Object.values(named).flat() });
  const tool = defineTool({
    name,
    title: title ?? definition.name,
    version: digest,
    category: 'service',
    tier,
    // It talks to others, whose words it passes on.
    untrusted: tier === 'external_api',
    capabilities: [{ action: definition.name, description: `Calls a tool of the external provider ${settings.name}.` }],
    // Marks the server's words, which would otherwise look like ours.
    summary: describedAs(
      `(From the external provider \`${settings.name}\`, in its own words.) ${description}`,
      deprecated,
    ),
    deprecated,
    effects: (given) => boundedEffects([...hostsOf(settings), ...effectsOf(given, named)], limits),
    narrows: configured.arguments,
    destructive: true,
    isExtra: false,
    timeoutMs: () => settings.timeoutMs,
    runs: {
      by: 'providers',
      provider: { provider: settings.name, tool: definition.name, digest, concurrency: settings.concurrency },
    },
    input,
    output: providedData,
    shown: { input: inputSchema, output: OUTPUT },
    examples: [],
    aliases: [],
  });
  return {
    tool: tool as unknown as Tool,
    parameters: Object.keys(propertiesOf(inputSchema)),
    warnings: () => deprecationWarnings(name, deprecated),
    parse(given) {
      assertAccepted();
      return input.parse(given);
    },
  };
}

/** The tools of a list that can be offered, validated again regardless of the host. Every other tool is refused with its reason. */
export function takeListed(
  { tools, refused, ...rest }: ListedTools,
  { settings, limits }: Pick<ToolOptions, 'settings' | 'limits'>,
): ListedTools {
  const good = new Map<string, ToolDefinition>();
  const wrong: { name: string; reason: string }[] = [];
  for (const it of tools) {
    try {
      if (good.has(it.name)) throw new Error('another tool has this name');
      const definition = toDefinition(it, limits);
      assertPresentable(toNamedTool({ settings, definition, limits, name: it.name, digest: '', assertAccepted() {} }));
      good.set(it.name, definition);
    } catch (error) {
      const { name, message } = error as Error;
      const reason = name === 'TypeError' ? `its schema is none: ${message}` : message;
      wrong.push({ name: it.name, reason: reason.slice(0, REASON_CHARS) });
    }
  }
  return { ...rest, tools: [...good.values()], refused: [...refused, ...wrong] };
}

const REASON_CHARS = 300;

/** Throws if the tool's schema can't be converted for a list of tools: one such tool would break the list for everybody. */
export function assertPresentable({ tool }: NamedTool): void {
  const info = toToolInfo(tool, 'ask');
  for (const format of TOOL_FORMATS) toFormat(info, format);
  declarationsOf([info], Infinity);
}

const OUTPUT = z.toJSONSchema(providedData);

/** The operator's settings for one tool. */
export function configOf({ tools }: ProviderSettings, tool: string) {
  const { allow: _, deny: __, ...named } = tools;
  return Object.hasOwn(named, tool) ? (named[tool] ?? {}) : {};
}

/** Whether the configuration allows offering the tool. */
export const isOffered = ({ tools: { allow, deny } }: ProviderSettings, tool: string): boolean =>
  (allow?.includes(tool) ?? true) && !deny?.includes(tool);

/** Hosts that a call may connect to, as far as known before it runs. */
function hostsOf(settings: ProviderSettings): Effect[] {
  if (settings.kind === 'stdio') return settings.network.map((target) => ({ kind: 'connect', target }));
  return [{ kind: 'connect', target: hostOf(new URL(settings.url)) }];
}

/** Effects from the parameters that the operator marked as paths or hosts. */
function effectsOf(
  input: unknown,
  named: { readonly [K in Effect['kind']]?: readonly string[] | undefined },
): Effect[] {
  return Object.entries(named).flatMap(([kind, parameters = []]) =>
    parameters.flatMap((parameter) => {
      const value = (input as Record<string, unknown>)[parameter];
      const targets = (Array.isArray(value) ? value : [value]).filter((it) => typeof it === 'string');
      return targets.map((target): Effect => ({ kind: kind as Effect['kind'], target }));
    }),
  );
}

const propertiesOf = ({ properties }: Record<string, unknown>): Record<string, unknown> =>
  isRecord(properties) ? properties : {};

/** A schema for the part of the server's schema that is quick to check: no patterns, no references. The server checks the rest. */
function inputOf(
  schema: Record<string, unknown>,
  { limits: { providerInputBytes: bytesMax }, targets }: { limits: Limits; targets: readonly (string | undefined)[] },
) {
  const properties = propertiesOf(schema);
  const required = Array.isArray(schema.required) ? schema.required.filter((it) => typeof it === 'string') : [];
  return z.looseObject({}).superRefine((input: Record<string, unknown>, context) => {
    const issue = (path: string[], message: string) => context.addIssue({ code: 'custom', path, message });
    for (const key of required) if (input[key] === undefined) issue([key], 'is required');
    const unknown = Object.keys(input).filter((it) => !Object.hasOwn(properties, it));
    if (schema.additionalProperties === false && unknown.length > 0)
      context.addIssue({ code: 'unrecognized_keys', keys: unknown, path: [], message: 'no such parameters' });
    for (const [key, value] of Object.entries(input)) {
      const { type } = isRecord(properties[key]) ? properties[key] : {};
      if (typeof type === 'string' && value !== undefined && !isOfType(value, type)) issue([key], `must be: ${type}`);
    }
    // Policies must see all targets.
    for (const key of targets)
      if (key !== undefined && !isTargets(input[key]))
        issue([key], `must be a text, or at most ${TARGETS_MAX} of them`);
    const bytes = JSON.stringify(input).length;
    if (bytes > bytesMax) issue([], `takes ${bytes} bytes; at most ${bytesMax} are taken`);
  });
}

const isTargets = (value: unknown): boolean =>
  value === undefined ||
  typeof value === 'string' ||
  (Array.isArray(value) && value.length <= TARGETS_MAX && value.every((it) => typeof it === 'string'));

/** Most targets in one list parameter. */
const TARGETS_MAX = 256;

function isOfType(value: unknown, type: string): boolean {
  switch (type) {
    case 'string':
    case 'boolean':
    case 'number':
      return typeof value === type;
    case 'integer':
      return Number.isInteger(value);
    case 'array':
      return Array.isArray(value);
    case 'object':
      return isRecord(value);
    default:
      return true; // Unknown types are not checked here.
  }
}
