/** The promises of every tool, built-in or a plugin's or a connector's, each as a check that throws. */

import { AssertionError } from 'node:assert';
import { inspect, isDeepStrictEqual } from 'node:util';
import * as z from 'zod';
import { isRecord } from '../base/text/values.ts';
import type { Client } from '../client/client.ts';
import { toFormat, toToolInfo } from '../tools/registry.ts';
import { keepsAfter, runsBy } from '../tools/runs.ts';
import type { Tool } from '../tools/tool.ts';

/** The session and workspace in which promises are checked. */
export interface ContractPlace {
  /** A session that may call the tool. */
  client(): Client;
  /** Creates what an example needs, before each. */
  prepare?: (() => void | Promise<void>) | undefined;
}

/** A promise: its title as a sentence about the tool, and its check. */
export interface ToolPromise {
  readonly title: string;
  check(): Promise<void>;
}

type Check = (tool: Tool, place: ContractPlace) => void | Promise<void>;

/** The promises of one tool, one for each of its examples among them. */
export function promisesOf(tool: Tool, place: ContractPlace): ToolPromise[] {
  const examples = tool.examples.map((example): [string, Check] => [
    `does what its example ${JSON.stringify(example.input)} says`,
    () => keepsExample(tool, example, place),
  ]);
  return [...examples, ...PROMISES].map(([title, check]) => ({ title, check: async () => check(tool, place) }));
}

/** Checks all promises of tools. Throws one error that names each promise that was not kept. */
export async function assertContract(tools: readonly Tool[], place: ContractPlace): Promise<void> {
  if (tools.length === 0) fail('there is no tool to check');
  const broken: string[] = [];
  for (const tool of tools)
    for (const { title, check } of promisesOf(tool, place))
      await check().catch((error: Error) => void broken.push(`${tool.name} ${title}: ${error.message}`));
  if (broken.length > 0) fail(`${broken.length} promises were not kept:\n${broken.join('\n')}`);
}

function assertMatches(actual: unknown, expected: unknown): void {
  if (isMatch(actual, expected)) return;
  throw new AssertionError({ message: `${inspect(actual)} does not match ${inspect(expected)}`, actual, expected });
}

/** Whether a value has all that is expected: objects may have further members, lists have the same length. */
function isMatch(actual: unknown, expected: unknown): boolean {
  if (Array.isArray(expected))
    return (
      Array.isArray(actual) && actual.length === expected.length && expected.every((it, i) => isMatch(actual[i], it))
    );
  if (!isRecord(expected)) return isDeepStrictEqual(actual, expected);
  return isRecord(actual) && Object.entries(expected).every(([name, it]) => isMatch(actual[name], it));
}

function fail(message: string): never {
  throw new AssertionError({ message });
}

async function keepsExample(tool: Tool, example: Tool['examples'][number], place: ContractPlace): Promise<void> {
  await place.prepare?.();
  const result = await place.client().call(tool.name as string, example.input);
  if ('error' in example) return assertMatches(result, { success: false, error: { code: example.error } });
  if (!result.success) fail(`it failed: ${result.error.code}: ${result.error.message}`);
  assertMatches(result.data, example.output);
  const { error } = tool.output.safeParse(result.data);
  if (error) fail(`its data is not of its output schema: ${z.prettifyError(error)}`);
}

const PROMISES: readonly (readonly [string, Check])[] = [
  ['refuses a parameter that it does not have, by name, before it runs', refusesUnknownParameter],
  ['describes every parameter and every alias parameter', describesParameters],
  ['is told in all five formats as a strict object schema', isToldInAllFormats],
  ['says what it can do, each thing once, and what it usually follows', saysWhatItCanDo],
  ['has annotations that say what its tier says', hasAnnotationsOfItsTier],
  ['answers by each alias under its own name', answersByAliases],
  ['declares effects of its input', declaresEffects],
];

async function refusesUnknownParameter({ name, examples }: Tool, { client }: ContractPlace): Promise<void> {
  const result = await client().call(name as string, { ...examples[0]?.input, pth: 1 } as never);
  assertMatches(result, { success: false, tool: name, error: { code: 'INPUT_INVALID', layer: 'validate' } });
  if (!result.success && !/pth: no such parameter/.test(result.error.message))
    fail(`its message does not name pth: ${result.error.message}`);
}

function describesParameters(tool: Tool): void {
  for (const schema of [tool.input, ...tool.aliases.map((it) => it.input)]) {
    if (schema.def.catchall?._zod.def.type !== 'never') fail('its input takes parameters that it does not name');
    for (const [key, value] of Object.entries(schema.shape)) {
      const described = value as z.ZodType & { unwrap?(): z.ZodType };
      if (!(described.description ?? described.unwrap?.().description)) fail(`its parameter ${key} has no description`);
    }
  }
}

function isToldInAllFormats(tool: Tool): void {
  const { name } = tool;
  const info = toToolInfo(tool, 'allow');
  assertMatches(info.inputSchema, { type: 'object', additionalProperties: false });
  for (const format of ['ringfence', 'mcp', 'openai', 'anthropic'] as const)
    assertMatches(toFormat(info, format), { name });
  assertMatches(toFormat(info, 'openai-chat'), { type: 'function', function: { name } });
}

async function saysWhatItCanDo({ name, dependencies = [] }: Tool, { client }: ContractPlace): Promise<void> {
  const listed = (await client().tools()).find((it) => it.name === name);
  if (!listed) return fail('it is not among the tools of the session');
  if (listed.capabilities.length === 0) fail('it has no capabilities');
  for (const { action, description } of listed.capabilities) {
    if (!/^[a-z][\w-]*$/.test(action)) fail(`its capability ${inspect(action)} is no name`);
    if (description.length <= 2) fail(`its capability ${action} has no description`);
  }
  const actions = listed.capabilities.map((it) => it.action);
  if (new Set(actions).size < actions.length) fail(`it names a capability twice: ${actions.join(', ')}`);
  assertMatches(listed.dependencies, dependencies);
}

function hasAnnotationsOfItsTier(tool: Tool): void {
  const { annotations, tier } = toToolInfo(tool, 'allow');
  assertMatches(annotations, { readOnlyHint: tier === 'read_only' });
  if (tier === 'read_only') assertMatches(annotations, { destructiveHint: false });
  if (tier === 'execute') assertMatches(annotations, { openWorldHint: true, destructiveHint: true });
}

async function answersByAliases({ name, aliases }: Tool, { client }: ContractPlace): Promise<void> {
  for (const alias of aliases) {
    const { tool } = await client().call(alias.name, { no: 'such' });
    if (tool !== name) fail(`its alias ${alias.name} is answered by ${tool}`);
  }
}

function declaresEffects(tool: Tool): void {
  // State in the gateway is no file, a list of tools or of running programs neither, and a program's calls have effects of their own.
  if (tool.state || runsBy(tool, 'tools') || runsBy(tool, 'isolates')) return;
  // Connectors have no examples; their effects are checked when their file is read.
  if (runsBy(tool, 'connectors')) return;
  const valid = (tool.examples.find((it) => 'output' in it) ?? tool.examples[0])?.input;
  const input = tool.input.parse(valid);
  if (!keepsAfter(tool, input) && tool.effects(input as never).length === 0)
    fail(`it declares no effects of ${inspect(valid)}`);
}
