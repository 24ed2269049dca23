/**
 * What a provider's server says, made harmless before anybody reads it: bounded, without control characters and without secrets.
 * Its host does so where it parses, and the gateway again what is shown of tools: a server may take its host over.
 */
import type { Limits } from '../limits.ts';
import type { Definition } from './messages.ts';

/**
 * What a terminal or a model takes for something else than it shows: control characters and escape sequences, marks that
 * reorder or hide text, and the tag characters in which whole sentences are written that nobody sees.
 */
const UNSEEN = /(?![\t\n])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]|[\u{e0100}-\u{e01ef}]/gu;

/** One text without such characters, cut to `chars`. */
export function toPlainText(text: string, chars: number): string {
  const plain = text
    .slice(0, chars + 1)
    .replaceAll(UNSEEN, '')
    .toWellFormed();
  return text.length > chars ? `${plain.slice(0, chars)}…` : plain;
}

/** A text in which none of `secrets` stands. */
export function without(secrets: readonly string[], text: string): string {
  return secrets.reduce((shown, secret) => shown.replaceAll(secret, '[secret]'), text);
}

/** The same for all texts of a value, the names of its members included. */
export function allWithout(secrets: readonly string[], value: unknown): unknown {
  if (secrets.length === 0) return value;
  return mapTexts(value, (text) => without(secrets, text));
}

/** Throws an Error that says why a tool can't be offered. */
export function toDefinition(tool: Readonly<Record<string, unknown>>, limits: Limits): Definition {
  const { name, title, description = '', inputSchema, outputSchema, annotations } = tool;
  if (typeof name !== 'string' || !/^[\w./-]{1,128}$/.test(name))
    throw new Error('a name takes 1 to 128 letters, digits and _ . / -');
  const chars = limits.providerDescriptionChars;
  return {
    name,
    ...(typeof title === 'string' && title !== '' && { title: toPlainText(title, TITLE_CHARS) }),
    description: toPlainText(String(description), chars),
    inputSchema: toSchema(inputSchema ?? { type: 'object' }, limits),
    ...(isObject(outputSchema) && { outputSchema: toSchema(outputSchema, limits) }),
    ...(isObject(annotations) && { annotations: toSchema(annotations, limits) }),
  };
}

const TITLE_CHARS = 200;

const isObject = (it: unknown): it is Record<string, unknown> =>
  typeof it === 'object' && it !== null && !Array.isArray(it);

function toSchema(schema: unknown, { providerSchemaBytes, providerSchemaDepth }: Limits): Record<string, unknown> {
  if (!isObject(schema)) throw new Error('its schema is no object');
  assertDepth(schema, providerSchemaDepth);
  const bytes = Buffer.byteLength(JSON.stringify(schema));
  if (bytes > providerSchemaBytes)
    throw new Error(`its schema takes ${bytes} bytes; at most ${providerSchemaBytes} are taken`);
  assertLocal(schema);
  assertNames(schema);
  return mapTexts(schema, (text) => toPlainText(text, text.length)) as Record<string, unknown>;
}

/** Names that differ only in what nobody sees would be one; others would begin lines of their own among ours. */
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

/** A reference to elsewhere would have whoever resolves it fetch what the server wants. */
function assertLocal(value: unknown): void {
  if (typeof value !== 'object' || value === null) return;
  for (const [key, it] of Object.entries(value)) {
    if (REFERENCES.has(key) && typeof it === 'string' && !it.startsWith('#'))
      throw new Error(`its schema refers to ${it.slice(0, 100)}; only references within it are taken`);
    assertLocal(it);
  }
}

const REFERENCES = new Set(['$ref', '$dynamicRef', '$recursiveRef']);

function mapTexts(value: unknown, map: (text: string) => string): unknown {
  if (typeof value === 'string') return map(value);
  if (Array.isArray(value)) return value.map((it) => mapTexts(it, map));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, it]) => [map(key), mapTexts(it, map)]));
}
