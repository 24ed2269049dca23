/** Results as texts for models, the same for MCP clients and for the tool messages of model APIs. */
import type { ResultMetadata, Withheld } from '../../base/call.ts';
import type { WireError } from '../../base/errors.ts';
import { safeText, withoutMarkers } from '../../base/text/shown-text.ts';
import { toJson } from './json.ts';

/** Strings longer than this or of several lines are not encoded as JSON, where escaped line ends would cost tokens and mislead. */
const RAW_CHARS = 200;
const isRaw = (value: unknown): value is string =>
  typeof value === 'string' && (value.includes('\n') || value.length > RAW_CHARS);

/** The data of a call: its long texts as they are, followed by the rest as JSON. */
export function textsOf(data: unknown): string[] {
  if (typeof data === 'string') return [data];
  if (typeof data !== 'object' || data === null || Array.isArray(data)) return [toJson(data ?? null)];
  const raw: [name: string, text: string][] = [];
  const rest: [name: string, value: unknown][] = [];
  for (const [name, value] of Object.entries(data)) {
    if (isRaw(value)) raw.push([name, value]);
    else rest.push([name, value]);
  }
  const texts = raw.map(([name, text]) => (raw.length > 1 ? `${name}:\n${text}` : text));
  if (rest.length > 0) texts.push(toJson(Object.fromEntries(rest)));
  return texts;
}

/** An error in words: what happened, what to do about it, and the facts, which may be strangers' words. */
export function errorText({ code, message, suggestion, details }: WireError): string {
  // The message already contains the issues.
  const { issues: _, ...more } = details ?? {};
  const facts = Object.keys(more).length > 0 ? textsOf(more) : [];
  return withoutMarkers(
    [`${code}: ${message}`, ...(suggestion === undefined ? [] : [suggestion]), ...facts].join('\n'),
  );
}

/** What a result says beside its data or error: warnings and denials, which may quote strangers. */
export const asides = ({ warnings = [], denied = [] }: Pick<ResultMetadata, 'warnings' | 'denied'>): string[] =>
  [...warnings.map((it) => `warning: ${it}`), ...(denied.length > 0 ? [`kept from: ${toJson(denied)}`] : [])].map(
    safeText,
  );

/** Describes in one line what the sandbox kept from a command, for people and models. */
export function describeWithheld({ hidden, absent = [], count, readOnly, network, unixSockets }: Withheld): string {
  const more = count > hidden.length ? ` and ${count - hidden.length} more` : '';
  const parts = [
    ...(count > 0 ? [`hidden: ${hidden.map(({ path }) => path).join(', ')}${more}`] : []),
    ...(readOnly.length > 0 ? [`read-only: ${readOnly.join(', ')}`] : []),
    `network: ${network === 'none' ? 'none' : network.join(', ')}`,
    ...[...hidden, ...absent].flatMap(({ path, open }) => (open === undefined ? [] : [`ask for ${path}: ${open}`])),
    ...(unixSockets === 'none' ? ['Unix sockets: none (tiers.execute.unixSockets of the policy)'] : []),
  ];
  return parts.join('; ');
}
