/** Files of test/corpora/crashes and their targets. */
import { basename } from 'node:path';
import { FUZZ_TARGETS, type FuzzTarget } from './targets.ts';

/** The target of a file `<target>-<hash>`. Throws if there is none. */
export function targetOfCrash(path: string): FuzzTarget {
  const [name = ''] = basename(path).split('-');
  const target = Object.hasOwn(FUZZ_TARGETS, name) ? FUZZ_TARGETS[name] : undefined;
  if (target === undefined)
    throw new Error(`the name of ${path} must begin with its target: ${Object.keys(FUZZ_TARGETS).join(', ')}`);
  return target;
}
