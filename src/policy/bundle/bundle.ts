/**
 * Policy bundles: a policy file and all that it extends in one JSON file, which a digest names and keys may sign. A
 * bundle is the same policy on every machine of a fleet, and a job that is given its digest runs under no other.
 */
import { createHash, createPrivateKey, createPublicKey, type KeyObject, sign, verify } from 'node:crypto';
import { posix } from 'node:path';
import { z } from 'zod';
import type { Limits } from '../../base/limits.ts';
import { parseJson } from '../../base/text/json.ts';
import { PolicyError } from '../policy-error.ts';
import { quoteForMessage } from '../positioned-yaml.ts';

/** Form of the bundles that this version writes and reads. */
const FORM = 1;
/** Signatures cover this text and the digest after it, so that a signature made for another purpose is never valid for a bundle. */
const SIGNED_AS = 'ringfence policy bundle 1\n';

const digestText = z.string().regex(/^sha256:[0-9a-f]{64}$/);
/** Whether a name stays below the folder that it is relative to. */
const isBelow = (name: string): boolean =>
  name !== '' && name === posix.normalize(name) && !/^(\/|\.{1,2}(\/|$))|\\|\0/.test(name);

const bundleFile = z.strictObject({
  ringfencePolicyBundle: z.literal(FORM),
  /** The file that extends the others. */
  entry: z.string(),
  /** Texts by name; names are relative to one folder, so that `extends` finds its file. */
  files: z.record(z.string(), z.string()),
  digest: digestText,
  signatures: z.array(z.strictObject({ key: digestText, signature: z.string().max(128) })).max(16),
});

export type PolicyBundle = z.infer<typeof bundleFile>;

/** Makes a bundle of texts by name. The same files give the same bundle, whatever their order. */
export function bundleOf(entry: string, files: ReadonlyMap<string, string>): PolicyBundle {
  const sorted = [...files].sort(([a], [b]) => (a < b ? -1 : 1));
  return {
    ringfencePolicyBundle: FORM,
    entry,
    files: Object.fromEntries(sorted),
    digest: digestOf(entry, sorted),
    signatures: [],
  };
}

/** Hash of the entry's name and of all names and texts, as `sha256:<hex>`. */
function digestOf(entry: string, files: readonly (readonly [string, string])[]): string {
  const sorted = [...files].sort(([a], [b]) => (a < b ? -1 : 1));
  return sha256(JSON.stringify([FORM, entry, sorted]));
}

const sha256 = (data: string | Buffer): string => `sha256:${createHash('sha256').update(data).digest('hex')}`;

/** Reads the text of a bundle; `label` names it in problems. Throws PolicyError, also if the digest is not that of its files. */
export function readBundle(text: string, label: string, limits: Limits): PolicyBundle {
  if (Buffer.byteLength(text) > limits.policyBundleBytesMax)
    throw new PolicyError([`${label} has more than ${limits.policyBundleBytesMax} bytes, the most of a policy bundle`]);
  const parsed = bundleFile.safeParse(jsonOf(text, label));
  if (!parsed.success)
    throw new PolicyError(
      parsed.error.issues.map((it) => `${label}: ${quoteForMessage(it.path.join('.'))}: ${it.message}`),
    );
  const { entry, files, digest } = parsed.data;
  if (!Object.hasOwn(files, entry))
    throw new PolicyError([`${label}: entry: there is no file ${quoteForMessage(entry)}`]);
  const outside = Object.keys(files).find((it) => !isBelow(it));
  if (outside !== undefined)
    throw new PolicyError([
      `${label}: a file must have a relative path without \`..\`, not ${quoteForMessage(outside)}`,
    ]);
  const below = Object.keys(files).find((it) => Object.keys(files).some((other) => other.startsWith(`${it}/`)));
  if (below !== undefined) throw new PolicyError([`${label}: ${quoteForMessage(below)} is a file and a folder`]);
  const actual = digestOf(entry, Object.entries(files));
  if (actual !== digest)
    throw new PolicyError([`${label} was changed: its files have digest ${actual}, not ${digest}`]);
  return parsed.data;
}

function jsonOf(text: string, label: string): unknown {
  try {
    return parseJson(text);
  } catch (error) {
    throw new PolicyError([`${label} is no policy bundle: ${quoteForMessage((error as Error).message)}`]);
  }
}

/** Whether a text is meant as a bundle rather than as a policy file. */
export const isBundle = (text: string): boolean => /^\s*\{\s*"ringfencePolicyBundle"/.test(text);

export const toText = (bundle: PolicyBundle): string => `${JSON.stringify(bundle, null, 2)}\n`;

/** The bundle with one more signature, by an ed25519 private key in PEM; an earlier one of that key is replaced. Throws PolicyError. */
export function signBundle(bundle: PolicyBundle, pem: string): PolicyBundle {
  const key = keyOf(pem, createPrivateKey, 'private');
  const id = idOf(createPublicKey(key));
  const signature = sign(null, Buffer.from(SIGNED_AS + bundle.digest), key).toString('base64');
  return { ...bundle, signatures: [...bundle.signatures.filter((it) => it.key !== id), { key: id, signature }] };
}

/** Requires a signature by the owner of a public key in PEM. Throws PolicyError. */
export function assertSigned({ digest, signatures }: PolicyBundle, pem: string, label: string): void {
  const key = keyOf(pem, createPublicKey, 'public');
  const id = idOf(key);
  const found = signatures.find((it) => it.key === id);
  if (found === undefined) throw new PolicyError([`${label} has no signature of the key ${id}`]);
  if (!verify(null, Buffer.from(SIGNED_AS + digest), key, Buffer.from(found.signature, 'base64')))
    throw new PolicyError([`${label}: the signature of the key ${id} does not fit the digest ${digest}`]);
}

/** Hash of a public key, by which signatures name it. */
const idOf = (key: KeyObject): string => sha256(key.export({ type: 'spki', format: 'der' }));

function keyOf(pem: string, read: (pem: string) => KeyObject, kind: 'private' | 'public'): KeyObject {
  const wanted = `an ed25519 ${kind} key in PEM is needed`;
  let key: KeyObject;
  try {
    key = read(pem);
  } catch (error) {
    throw new PolicyError([`${wanted}: ${(error as Error).message}`]);
  }
  if (key.asymmetricKeyType !== 'ed25519') throw new PolicyError([`${wanted}, not one of ${key.asymmetricKeyType}`]);
  return key;
}
