/** How arguments of calls are rewritten before they are judged, by policies, settings of providers and manifests of plugins. */
import * as z from 'zod';
import { optional } from './values.ts';

const parameter = z.string().regex(/^[A-Za-z][\w-]{0,63}$/, 'takes the name of a parameter');

/** Parts of an entry, which hold one after the other. */
export const argumentParts = {
  without: optional(
    z.array(parameter).max(64),
    'Without',
    'Parameters that are left out, so that their defaults hold.',
    ['fix'],
  ),
  set: optional(z.record(parameter, z.json()), 'Set', 'Values of parameters, in place of those that are given.', {
    overwrite: false,
  }),
  atMost: optional(z.record(parameter, z.number()), 'At most', 'The largest numbers that parameters may have.', {
    timeout: 60_000,
  }),
};
const parts = z.strictObject(argumentParts);
export type ArgumentParts = z.output<typeof parts>;
export const argumentsOfTool = parts.optional().describe('How its arguments are rewritten before they are judged.');

/** The arguments of a call as the parts say; the same object if nothing changes. */
export function rewritten(
  input: Readonly<Record<string, unknown>>,
  { without = [], set = {}, atMost = {} }: ArgumentParts,
): Readonly<Record<string, unknown>> {
  const kept = Object.entries(input).filter(([key]) => !without.includes(key));
  const lowered = Object.entries(atMost).flatMap(([key, most]): [string, unknown][] => {
    const value = { ...Object.fromEntries(kept), ...set }[key];
    return typeof value === 'number' && value > most ? [[key, most]] : [];
  });
  const changed = kept.length < Object.keys(input).length || Object.keys(set).length > 0 || lowered.length > 0;
  return changed ? { ...Object.fromEntries(kept), ...set, ...Object.fromEntries(lowered) } : input;
}
