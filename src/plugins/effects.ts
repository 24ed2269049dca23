/** What one call of a plugin's tool touches, as its manifest says: what the policy is asked about beside each call that it makes. */
import type { Effect } from '../call.ts';
import { type ManifestTool, REFERENCE } from './manifest.ts';

/** One for each declared effect whose parameters were given; for a list one each. */
export function effectsOf(declared: ManifestTool['effects'], input: Readonly<Record<string, unknown>>): Effect[] {
  return declared.flatMap(({ kind, target }) => targetsOf(target, input).map((it) => ({ kind, target: it })));
}

function targetsOf(target: string, input: Readonly<Record<string, unknown>>): string[] {
  const named = [...target.matchAll(REFERENCE)].map((it) => it[1] as string);
  // What was left out is not touched.
  if (named.some((it) => input[it] === undefined)) return [];
  const [first = ''] = named;
  if (Array.isArray(input[first])) return (input[first] as unknown[]).map(String);
  return [target.replaceAll(REFERENCE, (_, parameter: string) => String(input[parameter]))];
}
