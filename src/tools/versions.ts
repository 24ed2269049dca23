/**
 * Versions of added tools that stand beside each other: `find@1` and `find@2` in a manifest. The newest is the one that
 * the bare name means and that lists show. All have the bare name as their own, so that a policy for it is for each.
 */
import * as z from 'zod';

export const deprecationSchema = z
  .strictObject({
    replacement: z.string().min(1).max(128).optional().describe('The tool to call instead.'),
    reason: z.string().min(1).max(512).optional(),
  })
  .refine((it) => it.replacement !== undefined || it.reason !== undefined, 'takes a replacement, a reason or both');
export type Deprecation = z.output<typeof deprecationSchema>;

/** What a tool says of its versions. */
export interface Versioned {
  readonly version: string;
  /** Set for all but the newest major version: it is called as `name@major` only, and no list shows it. */
  readonly isOlder?: boolean;
  /** Major versions that can be called as `name@major`, the newest first. */
  readonly majors?: readonly number[];
  readonly deprecated?: Deprecation | undefined;
}

/** A name as a manifest declares it: without a version, or with the major one. */
export const VERSIONED_NAME = /^[a-z][a-z0-9]*(_[a-z0-9]+)*(@[1-9]\d{0,3})?$/;

export function splitName(declared: string): { name: string; major: number | undefined } {
  const [name = '', major] = declared.split('@');
  return { name, major: major === undefined ? undefined : Number(major) };
}

/** The first name that stands with a version and without; undefined if there is none. */
export function mixedName(declared: readonly string[]): string | undefined {
  return declared.find((it) => !it.includes('@') && declared.some((other) => other.startsWith(`${it}@`)));
}

/** What a declared name is among all names of its manifest. */
export function versionsOf(declared: string, all: readonly string[]): Pick<Versioned, 'isOlder' | 'majors'> {
  const { name, major } = splitName(declared);
  if (major === undefined) return {};
  const majors = all.flatMap((it) => (it.startsWith(`${name}@`) ? (splitName(it).major ?? []) : []));
  majors.sort((a, b) => b - a);
  return major === majors[0] ? { majors } : { isOlder: true };
}

/** The names by which a tool with the full name `tool` is called. */
export function calledNames(tool: string, declared: string, { isOlder }: Versioned): string[] {
  const { major } = splitName(declared);
  if (major === undefined) return [tool];
  return isOlder ? [`${tool}@${major}`] : [tool, `${tool}@${major}`];
}

/** The warning of a call of a deprecated tool; none for another. */
export function deprecationWarnings(name: string, deprecated: Deprecation | undefined): string[] {
  return deprecated ? [`${name} is deprecated: ${wordsOf(deprecated)}`] : [];
}

/** A description for models, which says first that the tool is deprecated. */
export const describedAs = (text: string, deprecated: Deprecation | undefined): string =>
  deprecated ? `(Deprecated: ${wordsOf(deprecated)}) ${text}` : text;

const wordsOf = ({ replacement, reason }: Deprecation): string =>
  [
    ...(replacement === undefined ? [] : [`use ${replacement} instead`]),
    ...(reason === undefined ? [] : [reason]),
  ].join('; ');
