/** A plugin's manifest (`ringfence.plugin.yaml`): its tools, their inputs and effects, and what they may call. */
import { posix } from 'node:path';
import * as z from 'zod';
import type { Tier } from '../../base/call.ts';
import { CODES } from '../../base/errors.ts';
import { defaultLimits } from '../../base/limits.ts';
import { TIERS } from '../../base/result-shapes.ts';
import { argumentsOfTool } from '../../policy/schema/arguments.ts';
import { deprecationSchema, mixedName, VERSIONED_NAME } from '../../tools/versions.ts';
import { type JsonSchema, objectSchema, schemasIn } from '../pinned/json-schema.ts';
import { CAPABILITIES, CAPABILITY_NAMES, mayHave } from './capabilities.ts';

export const MANIFEST = 'ringfence.plugin.yaml';

const { pluginToolsMax, pluginSchemaValuesMax, callTimeoutMs, codeMemoryMb, codeCpuMs, codeResultBytes } =
  defaultLimits;

const text = (max: number) => z.string().min(1).max(max);
/** A name without double underscores: in `plugin__tool` they separate the plugin's name. */
const name = (max: number) =>
  text(max).regex(/^[a-z][a-z0-9]*(_[a-z0-9]+)*$/, 'takes lower-case letters, digits and single _, a letter first');

/** A file of the plugin; may begin with `./`. */
const modulePath = text(256)
  .transform((path) => posix.normalize(path))
  .refine((path) => !path.startsWith('../') && !path.startsWith('/') && /\.m?js$/.test(path), {
    error: 'takes a .js or .mjs file of the plugin',
  });

const bounds = z.strictObject({
  timeoutMs: z.int().min(1).max(callTimeoutMs.execute).optional(),
  memoryMb: z.int().min(8).max(codeMemoryMb).optional(),
  cpuMs: z.int().min(1).max(codeCpuMs).optional(),
  outputBytes: z.int().min(1024).max(codeResultBytes).optional(),
});

/** Kinds of effects that tools of a tier may declare. */
const EFFECTS: Readonly<Record<Tier, readonly string[]>> = {
  read_only: ['read'],
  write: ['read', 'write', 'delete'],
  execute: ['read', 'write', 'delete'],
  external_api: ['read', 'write', 'delete', 'connect'],
};

/** A parameter reference in the target of an effect. */
export const REFERENCE = /\$\{input\.([A-Za-z][A-Za-z0-9_]*)\}/g;

const effect = z.strictObject({
  kind: z.enum(['read', 'write', 'delete', 'connect']),
  target: text(512),
});

const values = z.record(z.string(), z.unknown());
const example = z.union([
  z.strictObject({ input: values, output: values }),
  z.strictObject({ input: values, error: z.enum(Object.keys(CODES) as (keyof typeof CODES)[]) }),
]);

const exported = text(64).regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'takes the name of an exported function');

const tool = z
  .strictObject({
    name: text(32).regex(VERSIONED_NAME, 'takes lower-case letters, digits and single _, a letter first, and @MAJOR'),
    title: text(128),
    description: text(2048),
    tier: z.enum(TIERS),
    destructive: z.boolean().optional(),
    idempotent: z.boolean().optional(),
    input: objectSchema,
    output: objectSchema,
    effects: z.array(effect).max(16).default([]),
    capabilities: z.array(z.enum(CAPABILITY_NAMES)).max(CAPABILITY_NAMES.length).default([]),
    /** Other tools of the session that it may call, of its own tier or a lower one; never programs and plugins. */
    calls: z.array(text(128)).max(64).default([]),
    limits: bounds.default({}),
    /** Dollars that a call costs, which cost limits count. */
    cost: z.number().min(0).max(1000).optional(),
    arguments: argumentsOfTool,
    module: modulePath,
    /** Name of the exported function if it differs from the tool's name. */
    export: exported.optional(),
    /** Exported functions of the module that run before each call, and after it however it ended. */
    initialize: exported.optional(),
    cleanup: exported.optional(),
    /** Exported function that says `{ ok, message }`; `ringfence status --health` runs it, without tools. */
    healthCheck: exported.optional(),
    examples: z.array(example).max(32).default([]),
    deprecated: deprecationSchema.optional(),
  })
  .superRefine((it, context) => {
    const complain = (path: PropertyKey[], message: string) => context.addIssue({ code: 'custom', path, message });
    if (it.tier === 'execute' && it.destructive === false)
      complain(['destructive'], 'what runs commands may change anything that its sandbox lets it');
    for (const [at, capability] of it.capabilities.entries())
      if (!mayHave(it.tier, capability))
        complain(
          ['capabilities', at],
          `a tool of the tier ${it.tier} can not have ${capability}, which is for ${CAPABILITIES[capability].tiers.join(', ')}`,
        );
    for (const [at, { kind, target }] of it.effects.entries()) {
      if (!EFFECTS[it.tier].includes(kind))
        complain(['effects', at, 'kind'], `a tool of the tier ${it.tier} has no ${kind} effects`);
      for (const problem of problemsOfTarget(target, it.input.properties)) complain(['effects', at, 'target'], problem);
    }
    for (const key of ['input', 'output'] as const) {
      const used = schemasIn(it[key]);
      if (used > pluginSchemaValuesMax)
        complain([key], `has ${used} schemas and values in it; at most ${pluginSchemaValuesMax}`);
    }
    for (const [parameter, schema] of Object.entries(it.input.properties))
      if (schema.description === undefined)
        complain(['input', 'properties', parameter], 'has no description, which models call it by');
  });

export const manifestSchema = z
  .strictObject({
    name: name(24),
    version: text(32).regex(/^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$/, 'takes a version such as 1.0.0'),
    title: text(128),
    description: text(2048).optional(),
    isolation: z.enum(['isolate', 'compartment']).default('isolate'),
    tools: z.array(tool).min(1).max(pluginToolsMax),
  })
  .superRefine(({ tools }, context) => {
    const seen = new Set<string>();
    for (const [at, it] of tools.entries()) {
      if (seen.has(it.name))
        context.addIssue({ code: 'custom', path: ['tools', at, 'name'], message: `${it.name} stood before` });
      seen.add(it.name);
    }
    const mixed = mixedName(tools.map((it) => it.name));
    if (mixed !== undefined)
      context.addIssue({ code: 'custom', path: ['tools'], message: `${mixed} stands with a version and without` });
  });

export type Manifest = z.output<typeof manifestSchema>;
export type ManifestTool = Manifest['tools'][number];

const SIMPLE = new Set(['string', 'number', 'integer', 'boolean']);

function problemsOfTarget(target: string, properties: Readonly<Record<string, JsonSchema>>): string[] {
  if (target.replaceAll(REFERENCE, '').includes('${')) return ['a reference is written ${input.NAME}'];
  return [...target.matchAll(REFERENCE)].flatMap(([reference, parameter = '']) => {
    if (!Object.hasOwn(properties, parameter)) return [`the input has no parameter ${parameter}`];
    const { type, items } = properties[parameter] as JsonSchema;
    const isList = type === 'array' && SIMPLE.has(items?.type ?? '');
    if (isList && target !== reference) return [`${parameter} is a list, and stands alone: ${reference}`];
    return isList || SIMPLE.has(type ?? '') ? [] : [`${parameter} is no text, number or list of such`];
  });
}
