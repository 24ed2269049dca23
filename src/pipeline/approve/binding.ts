/** What an approval is bound to. Architecture invariant: pure; equal hashes mean that the same would happen. */
import { createHash } from 'node:crypto';
import { canonical } from '../../base/text/values.ts';
import type { FileFingerprint } from '../../policy/shell/programs.ts';

/** The content of a file that the call would change, or would read to decide what to change. */
export interface PreImage {
  readonly path: string;
  /** Null if there was no such file. */
  readonly hash: string | null;
}

export interface Binding {
  readonly tool: { readonly name: string; readonly version: string };
  readonly input: unknown;
  readonly programs: readonly FileFingerprint[];
  readonly cwd: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly policyVersion: string;
  /** Whether a delegated session makes the call: an answer remembered for its parent does not count for it. */
  readonly delegated?: boolean | undefined;
  readonly preImages: readonly PreImage[];
  /** Set for a call that runs code that the person was not shown: changes whenever its principal may have written; see principal-writes.ts. */
  readonly writes?: string | undefined;
}

/** `sha256:<hex>` of the binding; the order of keys, programs and files does not matter. */
export function bindingHash(binding: Binding): string {
  const { tool, input, programs, cwd, environment, policyVersion, delegated, preImages, writes } = binding;
  return hashOf({
    tool: { name: tool.name, version: tool.version },
    input,
    cwd,
    environment,
    policyVersion,
    writes,
    ...(delegated && { delegated }),
    programs: programs.map(canonical).toSorted(),
    preImages: preImages.map(canonical).toSorted(),
  });
}

/** `sha256:<hex>` of tool and canonical input: equal for the same request in any surroundings. */
export function subjectHash(tool: string, input: unknown): string {
  return hashOf({ tool, input });
}

/** Canonical text of tool and input: equal for the same tool and input in any order of keys. */
export function subjectOf({ tool, input }: { tool: string; input: unknown }): string {
  return canonical({ tool, input });
}

/** The differences in words, one line each, for the person and the agent; at most `DIFFERENCES_TOLD_MAX`. */
export function differencesOf(before: Binding, after: Binding): string[] {
  const changed = [
    ...(canonical(before.tool) === canonical(after.tool) ? [] : ['the tool']),
    ...(canonical(before.input) === canonical(after.input) ? [] : ['the input']),
    ...(before.cwd === after.cwd ? [] : ['the directory']),
    ...(canonical(before.environment) === canonical(after.environment) ? [] : ['the environment']),
    ...(before.policyVersion === after.policyVersion ? [] : ['the policy']),
    ...(before.writes === after.writes ? [] : ['what other calls of the same agent may have written']),
    ...changedPaths(before.programs, after.programs).map((path) => `the program ${path}`),
    ...changedPaths(before.preImages, after.preImages).map((path) => `the file ${path}`),
  ];
  const more = changed.length - DIFFERENCES_TOLD_MAX;
  return more > 0 ? [...changed.slice(0, DIFFERENCES_TOLD_MAX), `${more} more`] : changed;
}

const DIFFERENCES_TOLD_MAX = 8;

function changedPaths(before: readonly { path: string }[], after: readonly { path: string }[]): string[] {
  const [was, is] = [before, after].map((them) => new Map(them.map((it) => [it.path, canonical(it)]))) as [
    Map<string, string>,
    Map<string, string>,
  ];
  return [...new Set([...was.keys(), ...is.keys()])].filter((path) => was.get(path) !== is.get(path));
}

const hashOf = (value: unknown): string => `sha256:${createHash('sha256').update(canonical(value)).digest('hex')}`;
