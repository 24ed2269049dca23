/**
 * Declared effects of one call of a plugin's tool, from its manifest. The policy is asked about them in addition to each call that the
 * plugin makes.
 */
import type { Effect } from '../../base/call.ts';
import { type ManifestTool, REFERENCE } from './manifest.ts';

/** One effect for each declared effect whose parameters are present; for a list parameter one for each item. */
export function effectsOf(declared: ManifestTool['effects'], input: Readonly<Record<string, unknown>>): Effect[] {
  return declared.flatMap(({ kind, target }) => targetsOf(target, input).map((it) => ({ kind, target: it })));
}

function targetsOf(target: string, input: Readonly<Record<string, unknown>>): string[] {
  const named = [...target.matchAll(REFERENCE)].map((it) => it[1] as string);
  // Without its parameter an effect does not apply.
  if (named.some((it) => input[it] === undefined)) return [];
  const [first = ''] = named;
  if (Array.isArray(input[first])) return (input[first] as unknown[]).map(String);
  return [target.replaceAll(REFERENCE, (_, parameter: string) => String(input[parameter]))];
}
