/**
 * The policy of a CI job, read once before anything of the job runs: a built-in one, a file, a bundle, or a file of a
 * git ref that the job's author can't change.
 */
import { posix, resolve } from 'node:path';
import { defaultLimits as limits } from '../../base/limits.ts';
import { assertSigned, isBundle, type PolicyBundle, readBundle } from '../../policy/bundle/bundle.ts';
import { collectBundle } from '../../policy/bundle/collect.ts';
import { FileRefusal, readTrusted } from '../../policy/file.ts';
import { BUILT_IN, PolicyError } from '../../policy/load.ts';
import { readKey } from './keys.ts';

export interface JobPolicyFlags {
  /** A built-in policy, a file, a bundle, or `git:REF:PATH`. */
  readonly policy: string;
  /** The digest that the policy must have. */
  readonly policyDigest?: string;
  /** A file with the public key whose owner must have signed the bundle. */
  readonly policyKey?: string;
}

/** The bundle of a job's policy; undefined for a built-in policy. Throws PolicyError if it is not the one that is asked for. */
export async function jobPolicy(
  { policy, policyDigest, policyKey }: JobPolicyFlags,
  cwd: string,
): Promise<PolicyBundle | undefined> {
  if (BUILT_IN.has(policy)) {
    if (policyDigest === undefined && policyKey === undefined) return undefined;
    throw new PolicyError([`${policy} is a built-in policy, which has neither digest nor signature`]);
  }
  const bundle = await bundleAt(policy, cwd);
  if (policyDigest !== undefined && bundle.digest !== policyDigest)
    throw new PolicyError([`${policy} has digest ${bundle.digest}, not ${policyDigest}`]);
  if (policyKey !== undefined) assertSigned(bundle, readKey(resolve(cwd, policyKey)), policy);
  return bundle;
}

async function bundleAt(policy: string, cwd: string): Promise<PolicyBundle> {
  const [, ref, path] = /^git:([^:]+):(.+)$/.exec(policy) ?? [];
  const read =
    ref === undefined
      ? (it: string) => readPolicyText(it, limits.policyBundleBytesMax)
      : (it: string) => blobOf(ref, it, cwd);
  const entry = ref === undefined ? resolve(cwd, policy) : posix.join('/', path as string);
  const text = await read(entry);
  if (isBundle(text)) return readBundle(text, policy, limits);
  return await collectBundle(entry, (it) => (it === entry ? text : read(it)), limits);
}

/** The text of a file on disk that only we or root can write. Throws PolicyError. */
export function readPolicyText(path: string, bytesMax: number = limits.policyFileBytesMax): string {
  try {
    return readTrusted(path, bytesMax);
  } catch (error) {
    if (!(error instanceof FileRefusal)) throw error;
    throw new PolicyError([`policy ${path}: ${error.message}`]);
  }
}

/** The text of a file of a commit; `path` begins with `/`, the root of the repository. git runs no filter for it. Throws PolicyError. */
async function blobOf(ref: string, path: string, cwd: string): Promise<string> {
  const { execa } = await import('execa');
  const object = `${ref}:${path.slice(1)}`;
  // A ref that begins with a hyphen would be an option.
  const { exitCode, stdout, stderr } = await execa('git', ['cat-file', 'blob', '--end-of-options', object], {
    cwd,
    reject: false,
    stripFinalNewline: false,
    maxBuffer: limits.policyBundleBytesMax,
  });
  if (exitCode === 0) return stdout;
  throw new PolicyError([`policy git:${object}: ${stderr.trim().split('\n')[0] || 'git failed'}`]);
}
