/** Files of test/corpora and their targets. */
import { basename, dirname } from 'node:path';
import { FUZZ_TARGETS, type FuzzTarget } from './targets.ts';

/** The target of a file `<target>-<hash>` or `<target>/<outcome>`. Throws if there is none. */
export function targetOf(path: string): FuzzTarget {
  const [name = ''] = basename(path).split('-');
  const target = [basename(dirname(path)), name].find((it) => Object.hasOwn(FUZZ_TARGETS, it));
  if (target === undefined)
    throw new Error(
      `the name of ${path}, or of its folder, must begin with its target: ${Object.keys(FUZZ_TARGETS).join(', ')}`,
    );
  return FUZZ_TARGETS[target] as FuzzTarget;
}
