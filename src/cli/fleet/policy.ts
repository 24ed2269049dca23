/** `ringfence fleet policy`: which policy nodes must follow to get sessions. */

import { replaceFile } from '../../base/disk.ts';
import { defaultLimits as limits } from '../../base/limits.ts';
import { fleetFiles, readFleet } from '../../fleet/folder.ts';
import { type PolicyBundle, signBundle, toText } from '../../policy/bundle/bundle.ts';
import { PolicyError } from '../../policy/policy-error.ts';
import { assertLoadable } from '../ci/bundle.ts';
import { jobPolicy } from '../ci/job-policy.ts';
import type { CliCaller } from '../connect.ts';
import { EXIT, harmless, printJson, say, UsageError } from '../output.ts';
import { changeRoster, type FleetFlags, folderOf } from './operator.ts';

/**
 * Requires a version of the policy, or with `bundle` a policy that the operator's key signs here and that the hub hands
 * out. Without either, any policy will do.
 */
export async function fleetPolicy(
  version: string | undefined,
  { bundle: source, ...flags }: FleetFlags & { bundle?: string },
  caller: CliCaller,
): Promise<number> {
  if (version !== undefined && source !== undefined) throw new UsageError('give a version or --bundle, not both');
  if (version !== undefined && !/^sha256:[0-9a-f]{64}$/.test(version))
    throw new UsageError(harmless(`${version} is no version of a policy; \`ringfence status\` shows it`));
  const folder = folderOf(flags, caller);
  const bundle = source === undefined ? undefined : await signedBundle(source, folder, caller);
  // The hub has the bundle before a node can ask for it.
  if (bundle) replaceFile(fleetFiles(folder).hubPolicy, toText(bundle));
  const { bundle: required } = await changeRoster(folder, (roster) => {
    if (bundle) return { policy: undefined, bundle: { digest: bundle.digest, revision: roster.version + 1 } };
    const lifted = roster.bundle && { bundle: { digest: null, revision: roster.version + 1 } };
    return version === undefined ? { policy: undefined, ...lifted } : { policy: version };
  });
  if (flags.json) printJson({ policy: version ?? null, bundle: required?.digest ?? null });
  else if (bundle) say(`nodes must follow the policy ${bundle.digest}; those that run with --policy fleet get it`);
  else say(version === undefined ? 'nodes may follow any policy' : 'nodes must follow this policy');
  return EXIT.OK;
}

/** The bundle of a file, a bundle file or `git:REF:PATH`, signed by the operator. Throws UsageError. */
async function signedBundle(source: string, folder: string, { cwd }: CliCaller): Promise<PolicyBundle> {
  const { privateKey } = readFleet(folder, limits);
  try {
    const bundle = await jobPolicy({ policy: source }, cwd);
    if (!bundle) throw new PolicyError([`${source} is a built-in policy; write a file that extends it`]);
    assertLoadable(bundle);
    const signed = signBundle(bundle, privateKey);
    const bytes = Buffer.byteLength(toText(signed));
    if (bytes > limits.fleetMessageBytesMax)
      throw new PolicyError([
        `the bundle has ${bytes} bytes; a message of the fleet holds ${limits.fleetMessageBytesMax}`,
      ]);
    return signed;
  } catch (error) {
    if (!(error instanceof PolicyError)) throw error;
    throw new UsageError(harmless(error.message));
  }
}
