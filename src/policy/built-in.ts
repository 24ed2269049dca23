/**
 * The built-in policies as texts, and as the build has read them: to read YAML, and to hold it to a shape, is an eighth of a
 * start. What was read counts only for the very texts that are there now.
 */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { builtInFolder } from './file.ts';
import type { Policy } from './schema.ts';

/** `default` first: the others extend it. */
export const BUILT_IN_NAMES = ['default', 'strict', 'unattended', 'read-only', 'subagent'] as const;

/** `dist/policies.json`, seen from the built form of this file; of a checkout's sources there is none. */
const READ = fileURLToPath(new URL('../policies.json', import.meta.url));

/** Whoever can change the package can change the code that reads it, so that its policies are as trusted. */
export function builtInText(name: string): string {
  return readFileSync(join(builtInFolder(), `${name}.yaml`), 'utf8');
}

/** What `dist/policies.json` holds: policies are plain data. */
export const toBuilt = (policies: ReadonlyMap<string, Policy>): string =>
  JSON.stringify({ key: keyOfTexts(), policies: [...policies] });

/** The built-in policies by name, as the build has read them; undefined where it has not, or has read other texts. */
export function loadBuilt(): ReadonlyMap<string, Policy> | undefined {
  if (!existsSync(READ)) return undefined;
  const { key, policies } = JSON.parse(readFileSync(READ, 'utf8')) as { key: string; policies: [string, Policy][] };
  return key === keyOfTexts() ? new Map(policies) : undefined;
}

const keyOfTexts = (): string =>
  createHash('sha256')
    .update(JSON.stringify(BUILT_IN_NAMES.map(builtInText)))
    .digest('hex');
