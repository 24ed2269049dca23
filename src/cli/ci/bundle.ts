/** `ringfence policy bundle build|sign|verify`: works on files without a daemon. Each returns the exit code: 0, or 2 if a file is refused. */

import { mkdtempDisposableSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { defaultLimits as limits } from '../../base/limits.ts';
import { writeWhole } from '../../daemon/config/write-whole.ts';
import {
  assertSigned,
  isBundle,
  type PolicyBundle,
  readBundle,
  signBundle,
  toText,
} from '../../policy/bundle/bundle.ts';
import { collectBundle, unpackBundle } from '../../policy/bundle/collect.ts';
import { PolicyError, readPolicy } from '../../policy/load.ts';
import { effectsOfBuiltin as effectsOf } from '../../tools/registry.ts';
import type { CliCaller } from '../connect.ts';
import { harmless, type JsonFlag, printJson, say } from '../output.ts';
import { orRefused } from '../policy.ts';
import { readPolicyText } from './job-policy.ts';
import { readKey } from './keys.ts';

/** Writes the bundle of a policy file, which must be valid, to standard output or to `output`. */
export async function bundleBuild(
  file: string,
  { output, json }: JsonFlag & { readonly output?: string },
  { cwd }: CliCaller,
): Promise<number> {
  return orRefused(json, async () => {
    const path = resolve(cwd, file);
    readPolicy(path, { effectsOf });
    const bundle = await collectBundle(path, readPolicyText, limits);
    if (output === undefined) process.stdout.write(toText(bundle));
    else writeFileSync(resolve(cwd, output), toText(bundle), { mode: 0o644 });
    tell(bundle, { json: json === true && output !== undefined });
  });
}

/** Adds the signature of an ed25519 private key in PEM to a bundle file. */
export async function bundleSign(
  file: string,
  { key, json }: JsonFlag & { readonly key: string },
  { cwd }: CliCaller,
): Promise<number> {
  return orRefused(json, () => {
    const path = resolve(cwd, file);
    const bundle = signBundle(read(path), readKey(resolve(cwd, key)));
    writeWhole(path, toText(bundle));
    tell(bundle, { json });
  });
}

/** Checks that a bundle is whole, valid here, and signed by the owner of a public key if one is given. */
export async function bundleVerify(
  file: string,
  { key, json }: JsonFlag & { readonly key?: string },
  { cwd }: CliCaller,
): Promise<number> {
  return orRefused(json, () => {
    const path = resolve(cwd, file);
    const bundle = read(path);
    if (key !== undefined) assertSigned(bundle, readKey(resolve(cwd, key)), file);
    assertLoadable(bundle);
    tell(bundle, { json });
  });
}

/** Throws PolicyError if the policy of a bundle is not valid here. */
export function assertLoadable(bundle: PolicyBundle): void {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'ringfence-policy-'));
  readPolicy(unpackBundle(bundle, folder.path), { effectsOf });
}

function read(path: string): PolicyBundle {
  const text = readPolicyText(path, limits.policyBundleBytesMax);
  if (!isBundle(text))
    throw new PolicyError([`${path} is no policy bundle; make one with: ringfence policy bundle build`]);
  return readBundle(text, path, limits);
}

function tell({ entry, files, digest, signatures }: PolicyBundle, { json }: JsonFlag): void {
  const names = Object.keys(files);
  if (json) printJson({ ok: true, entry, files: names, digest, keys: signatures.map((it) => it.key) });
  else say(harmless(`${entry}: ${names.length} files, ${signatures.length} signatures, digest ${digest}`));
}
