/**
 * The built-in policies: their YAML texts, and the form that the build has parsed. Parsing and validating YAML takes an eighth of the
 * start-up time. The parsed form is used only if the texts have not changed since.
 */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { codeFolder } from '../base/native-programs.ts';
import { builtInFolder } from './file.ts';
import type { Policy } from './schema.ts';

/** Each extends one before it. */
export const BUILT_IN_NAMES = [
  'floor',
  'default',
  'careful',
  'strict',
  'unattended',
  'read-only',
  'plan',
  'subagent',
] as const;

/** Written by script/build.ts; a checkout's sources have none. */
const READ = join(codeFolder, 'policies.json');

/** Reads without the ownership checks of other policy files: whoever can change the package can change the code as well. */
export function builtInText(name: string): string {
  return readFileSync(join(builtInFolder(), `${name}.yaml`), 'utf8');
}

/** The content of `dist/policies.json`. */
export const toBuilt = (policies: ReadonlyMap<string, Policy>): string =>
  JSON.stringify({ key: keyOfTexts(), policies: [...policies] });

/** The built-in policies by name, as the build parsed them; undefined if there is no build, or the texts have changed since. */
export function loadBuilt(): ReadonlyMap<string, Policy> | undefined {
  if (!existsSync(READ)) return undefined;
  const { key, policies } = JSON.parse(readFileSync(READ, 'utf8')) as { key: string; policies: [string, Policy][] };
  return key === keyOfTexts() ? new Map(policies) : undefined;
}

const keyOfTexts = (): string =>
  createHash('sha256')
    .update(JSON.stringify(BUILT_IN_NAMES.map(builtInText)))
    .digest('hex');
