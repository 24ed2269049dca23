/** Bounds of policy files and of reading them. */
import { KiB } from './units.ts';

export const policyLimits = {
  /** Largest policy file; parsing takes about 1 ms for each KiB at worst and blocks the daemon. */
  policyFileBytesMax: 256 * KiB,
  /** Largest policy file of a workspace, which the authors of the repository control. */
  policyProjectBytesMax: 32 * KiB,
  /** Entries of the audit log that one `policy.backtest` decides again, a tenth of a millisecond each. */
  backtestEntriesMax: 100_000,
  /** Differences in its answer. */
  backtestDifferencesMax: 1000,
  /** Values in a policy file with every alias counted in full, so that aliases of aliases can't multiply. */
  policyValuesMax: 50_000,
  /** Deepest nesting of a policy file; each level of `all any not` costs stack in every decision. */
  policyDepthMax: 32,
  /** Files in a chain of `extends`; every load reads all of them. */
  policyExtendsMax: 8,
  /** Largest policy bundle: as many files as a chain may have, and room for signatures; a job reads it before it starts. */
  policyBundleBytesMax: 4 * 1024 * KiB,
  /** Characters of a rule times characters of its examples, summed over a file: the cost of trying them, 50 ms as measured. */
  policyExampleWorkMax: 50_000_000,
  /**
   * Largest `.npmrc` or `.pypirc` that is searched for a credential, and largest key that is looked for in the repository's objects; a
   * larger one counts as a secret. The gateway's main thread reads them before each command, and an agent can write them.
   */
  settingsFileBytesMax: 16 * KiB,
  /**
   * Folders of a workspace whose settings files and keys are read before each command; those in other folders count as secrets.
   */
  settingsFoldersMax: 32,
  /**
   * Settings files and keys of a workspace that are read before each command, and of those that one question is about; further ones count
   * as secrets. 0.1 ms each, 0.4 ms for a key where 60 packs are searched for it.
   */
  settingsFilesMax: 128,
  /** Delay from a change of a policy file to its reload; saving in an editor makes several changes. */
  policyReloadMs: 100,
};
