/** Bounds of policy files and of reading them. */
import { bytes, count, KiB, ms } from './units.ts';

export const policyLimits = {
  /** Largest policy file; a parse takes about 1 ms per KiB at worst and holds up the daemon. */
  policyFileBytesMax: bytes().default(256 * KiB),
  /** Largest policy file of a workspace: whoever wrote the repository wrote it. */
  policyProjectBytesMax: bytes().default(32 * KiB),
  /** Values in a policy file with every alias written out, so that aliases of aliases can't multiply. */
  policyValuesMax: count().default(50_000),
  /** Deepest nesting of a policy file; each level of `all any not` costs stack in every decision. */
  policyDepthMax: count().default(32),
  /** Files from one that extends to the last that is extended; each is read anew on every load. */
  policyExtendsMax: count().default(8),
  /** Characters of a rule times characters of its examples, over a file: what trying them costs, 50 ms as measured. */
  policyExampleWorkMax: count().default(50_000_000),
  /**
   * Largest `.npmrc` or `.pypirc` that is read to see whether it holds a credential; a larger one counts as a secret. Each is read
   * before each command, on the gateway's main thread, and an agent can write them.
   */
  settingsFileBytesMax: bytes().default(16 * KiB),
  /** Folders of a workspace whose settings files are read before each command, 0.1 ms each; those of the others count as secrets. */
  settingsFoldersMax: count().default(32),
  /** From a change of a policy file to its reload: an editor that saves makes several. */
  policyReloadMs: ms().default(100),
};
