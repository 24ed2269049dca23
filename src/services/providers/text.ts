/**
 * Makes texts from a provider's server harmless: bounded, without control characters and without secrets. The host does this when it
 * parses, and the gateway again for everything shown of tools, since a server may compromise its host.
 */
import type { Limits } from '../../base/limits.ts';
import { KnownValues } from '../../base/redact/known-values.ts';
import { withoutUnseen } from '../../base/text/shown-text.ts';
import { isRecord, mapTexts } from '../../base/text/values.ts';
import type { ToolDefinition } from './messages.ts';

/** A text without invisible characters, cut to `chars`. */
export function toPlainText(text: string, chars: number): string {
  const plain = withoutUnseen(text.slice(0, chars + 1));
  return text.length > chars ? `${plain.slice(0, chars)}…` : plain;
}

/** A value that a server sent, without its secrets in any spelling and without invisible characters, member names included. */
export const toHarmless = (secrets: readonly string[], value: unknown): unknown =>
  mapTexts(new KnownValues(secrets).hideAll(value), withoutUnseen);

/** Validates and bounds a tool's definition. Throws an Error that says why the tool can't be offered. */
export function toDefinition(tool: Readonly<Record<string, unknown>>, limits: Limits): ToolDefinition {
  const { name, title, description = '', inputSchema, outputSchema, annotations } = tool;
  if (typeof name !== 'string' || !/^[\w./-]{1,128}$/.test(name))
    throw new Error('a name takes 1 to 128 letters, digits and _ . / -');
  const chars = limits.providerDescriptionChars;
  return {
    name,
    ...(typeof title === 'string' && title !== '' && { title: toPlainText(title, TITLE_CHARS) }),
    description: toPlainText(String(description), chars),
    inputSchema: toInputSchema(inputSchema, limits),
    ...(isRecord(outputSchema) && { outputSchema: toSchema(outputSchema, limits) }),
    ...(isRecord(annotations) && { annotations: toSchema(annotations, limits) }),
  };
}

const TITLE_CHARS = 200;

function toInputSchema(given: unknown = { type: 'object' }, limits: Limits): Record<string, unknown> {
  const schema = toSchema(given, limits);
  if (schema.type !== undefined && schema.type !== 'object') throw new Error('its input is no object');
  return schema;
}

function toSchema(schema: unknown, { providerSchemaBytes, providerSchemaDepth }: Limits): Record<string, unknown> {
  if (!isRecord(schema)) throw new Error('its schema is no object');
  assertDepth(schema, providerSchemaDepth);
  const bytes = Buffer.byteLength(JSON.stringify(schema));
  if (bytes > providerSchemaBytes)
    throw new Error(`its schema has ${bytes} bytes; at most ${providerSchemaBytes} are accepted`);
  assertLocal(schema);
  assertNames(schema);
  return mapTexts(schema, (text) => toPlainText(text, text.length)) as Record<string, unknown>;
}

/** Rejects names with invisible characters: names could look equal, or add lines to our own output. */
function assertNames(value: unknown): void {
  if (typeof value !== 'object' || value === null) return;
  for (const [key, it] of Object.entries(value)) {
    if (!/^\P{C}{0,200}$/u.test(key))
      throw new Error('its schema has names that are too long, or hold unseen characters');
    assertNames(it);
  }
}

function assertDepth(value: unknown, left: number): void {
  if (typeof value !== 'object' || value === null) return;
  if (left === 0) throw new Error('its schema is nested too deeply');
  for (const it of Object.values(value)) assertDepth(it, left - 1);
}

/** Rejects references to other documents, which a validator might fetch on the server's behalf. */
function assertLocal(value: unknown): void {
  if (typeof value !== 'object' || value === null) return;
  for (const [key, it] of Object.entries(value)) {
    if (REFERENCES.has(key) && typeof it === 'string' && !it.startsWith('#'))
      throw new Error(`its schema refers to ${it.slice(0, 100)}; only references within it are taken`);
    assertLocal(it);
  }
}

const REFERENCES = new Set(['$ref', '$dynamicRef', '$recursiveRef']);
