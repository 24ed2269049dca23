/** Policy bundles: what their digest and signatures cover, and which texts are refused as one. */
import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { defaultLimits as limits } from '../../../src/base/limits.ts';
import { assertSigned, bundleOf, isBundle, readBundle, signBundle, toText } from '../../../src/policy/bundle/bundle.ts';
import { collectBundle, unpackBundle } from '../../../src/policy/bundle/collect.ts';

const pairOf = (type: 'ed25519' | 'ed448' = 'ed25519') =>
  generateKeyPairSync(type as 'ed25519', {
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  });
const files = new Map([
  ['ci.yaml', 'version: 1\nextends: base/all.yaml\n'],
  ['base/all.yaml', 'version: 1\n'],
]);
const bundle = bundleOf('ci.yaml', files);
const read = (value: object) => readBundle(JSON.stringify(value), 'b.json', limits);

test('the order in which files were read does not change a bundle', () => {
  expect(toText(bundleOf('ci.yaml', new Map([...files].reverse())))).toBe(toText(bundle));
  expect(readBundle(toText(bundle), 'b.json', limits)).toEqual(bundle);
  expect(isBundle(toText(bundle))).toBe(true);
  expect(isBundle('version: 1\n')).toBe(false);
});

test('any change of an entry, name or text changes the digest', () => {
  const part = fc.stringMatching(/^[a-z]{1,8}$/);
  fc.assert(
    fc.property(fc.dictionary(part, fc.string(), { minKeys: 1, maxKeys: 4 }), fc.nat(), part, (texts, at, more) => {
      const names = Object.keys(texts);
      const name = names[at % names.length] as string;
      const { digest } = bundleOf(name, new Map(Object.entries(texts)));
      expect(bundleOf(name, new Map(Object.entries({ ...texts, [name]: `${texts[name]}${more}` }))).digest).not.toBe(
        digest,
      );
      if (!names.includes(more))
        expect(bundleOf(name, new Map(Object.entries({ ...texts, [more]: '' }))).digest).not.toBe(digest);
      for (const other of names.filter((it) => it !== name))
        expect(bundleOf(other, new Map(Object.entries(texts))).digest).not.toBe(digest);
    }),
  );
});

test('a bundle whose text was changed is refused, also with its old signature', () => {
  const signed = signBundle(bundle, pairOf().privateKey);
  const changed = { ...signed, files: { ...signed.files, 'ci.yaml': 'version: 1\nextends: default\n' } };
  expect(() => read(changed)).toThrow(/b\.json was changed: its files have digest sha256:[0-9a-f]{64}, not sha256:/);
});

test.each(['../x', '/etc/x', 'a/../../x', './x', 'a\\b', '', '..', 'a//b', 'x\0'])(
  'a file named %j is refused',
  (name) => {
    const evil = bundleOf('ci.yaml', new Map([...files, [name, 'version: 1\n']]));
    expect(() => read(evil)).toThrow('a relative path without `..`');
  },
);

test('a name that is both a file and a folder, an unknown form and a missing entry are refused', () => {
  expect(() =>
    read(
      bundleOf(
        'a',
        new Map([
          ['a', ''],
          ['a/b', ''],
        ]),
      ),
    ),
  ).toThrow('a is a file and a folder');
  expect(() => read({ ...bundle, ringfencePolicyBundle: 2 })).toThrow('ringfencePolicyBundle');
  expect(() => read(bundleOf('other.yaml', files))).toThrow('there is no file other.yaml');
  expect(() => readBundle('{"ringfencePolicyBundle"', 'b.json', limits)).toThrow('b.json is no policy bundle');
  const small = { ...limits, policyBundleBytesMax: 10 };
  expect(() => readBundle(toText(bundle), 'b.json', small)).toThrow('more than 10 bytes');
});

test('only the owner of the key is believed, and only for this digest', () => {
  const [ours, others] = [pairOf(), pairOf()];
  const signed = signBundle(signBundle(bundle, others.privateKey), ours.privateKey);
  assertSigned(read(signed), ours.publicKey, 'b.json');
  assertSigned(read(signed), others.publicKey, 'b.json');
  expect(signBundle(signed, ours.privateKey).signatures).toHaveLength(2);
  expect(() => assertSigned(bundle, ours.publicKey, 'b.json')).toThrow(/b\.json has no signature of the key sha256:/);
  const moved = { ...bundleOf('ci.yaml', new Map([['ci.yaml', 'version: 1\n']])), signatures: signed.signatures };
  expect(() => assertSigned(read(moved), ours.publicKey, 'b.json')).toThrow('does not fit the digest');
  const [first, second] = signed.signatures;
  const swapped = { ...signed, signatures: [{ ...first, signature: second?.signature }] } as typeof signed;
  expect(() => assertSigned(swapped, others.publicKey, 'b.json')).toThrow('does not fit the digest');
});

test('keys of another kind and texts that are no key are refused', () => {
  expect(() => signBundle(bundle, pairOf('ed448').privateKey)).toThrow('not one of ed448');
  expect(() => signBundle(bundle, 'hello')).toThrow('an ed25519 private key in PEM is needed');
  expect(() => signBundle(bundle, pairOf().publicKey)).toThrow('an ed25519 private key in PEM is needed');
});

test('the parents of a file are collected with names that still lead to them', async () => {
  const texts: Record<string, string> = {
    '/p/ci/a.yaml': 'version: 1\nextends: ../base/b.yaml\n',
    '/p/base/b.yaml': 'version: 1\nextends: strict\n',
  };
  const collected = await collectBundle('/p/ci/a.yaml', (path) => texts[path] as string, limits);
  expect([collected.entry, Object.keys(collected.files)]).toEqual(['ci/a.yaml', ['base/b.yaml', 'ci/a.yaml']]);
  const folder = mkdtempSync(join(tmpdir(), 'ringfence-bundle-'));
  try {
    expect(unpackBundle(collected, folder)).toBe(join(folder, 'ci/a.yaml'));
    expect(readFileSync(join(folder, 'base/b.yaml'), 'utf8')).toBe(texts['/p/base/b.yaml']);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('files that extend each other in a circle, or too many, end the collection', async () => {
  const circle = (path: string) => `version: 1\nextends: ${path === '/a.yaml' ? 'b' : 'a'}.yaml\n`;
  expect(Object.keys((await collectBundle('/a.yaml', circle, limits)).files)).toEqual(['a.yaml', 'b.yaml']);
  const endless = (path: string) => `version: 1\nextends: x${path.slice(1)}\n`;
  await expect(collectBundle('/a.yaml', endless, limits)).rejects.toThrow('at most 8 files');
});
