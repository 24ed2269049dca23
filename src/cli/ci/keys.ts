/** Key files that a person names on a command line. */
import { readFileSync } from 'node:fs';
import { PolicyError } from '../../policy/policy-error.ts';

/** The text of a key file. Throws PolicyError. */
export function readKey(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    throw new PolicyError([`the key ${path} can't be read: ${(error as NodeJS.ErrnoException).code}`]);
  }
}
