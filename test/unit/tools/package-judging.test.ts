/** How a planned installation is judged, apart from npm: names, settings files, lockfiles, reports. */

import { describe, expect, test } from 'vitest';
import { auditedBy } from '../../../src/tools/package/advisories.ts';
import { questionableOf, refusedOf } from '../../../src/tools/package/findings.ts';
import { changesBetween } from '../../../src/tools/package/locked.ts';
import { lockedPackages as lockedByNpm } from '../../../src/tools/package/npm/lock.ts';
import { riskyKeys } from '../../../src/tools/package/npm/settings-file.ts';
import { toPackageSettings } from '../../../src/tools/package/settings.ts';
import { similarTo } from '../../../src/tools/package/similar-names.ts';
import { builtinToolset } from '../../../src/tools/registry.ts';

const REGISTRY = 'https://registry.npmjs.org';
const lockedPackages = (text: string | null) => lockedByNpm(text, REGISTRY);

test.each([
  ['lodahs', 'lodash'],
  ['loadash', 'lodash'],
  ['lodas', 'lodash'],
  ['expresss', 'express'],
  ['exqress', 'express'],
  ['crossenv', 'cross-env'],
  ['cross.env', 'cross-env'],
  ['babelcore', 'babel-core'],
  ['react_dom', 'react-dom'],
])('%s is like %s', (name, popular) => {
  expect(similarTo(name, 'npm')).toBe(popular);
});

test.each(['lodash', 'preact', 'react', 'ms', 'quite-another', 'word-wrap', 'through', '@own/lodash', 'x'.repeat(200)])(
  '%s is like no other',
  (name) => {
    expect(similarTo(name, 'npm')).toBeUndefined();
  },
);

test.each([
  ['save-exact=true\n# a comment\n; another\n\nfund = false', []],
  [`registry=${REGISTRY}/`, []],
  ['registry = "https://registry.npmjs.org"', []],
  ['registry=https://registry.npmjs.org.evil.example/', ['registry']],
  ['@own:registry=https://npm.example', ['@own:registry']],
  ['script-shell=x\nnode-options = y\r\ngit=z\rprefix=/', ['script-shell', 'node-options', 'git', 'prefix']],
  ['omit[]=dev\nomit[]=optional', ['omit']],
  ['[section]\nregistry=x', ['[section]', 'registry']],
  ['SAVE-EXACT=true', ['SAVE-EXACT']],
  ['ignore-scripts', []],
  ['unknown', ['unknown']],
])('the settings %j have the refused keys %j', (text, keys) => {
  expect(riskyKeys(text, REGISTRY)).toEqual(keys);
});

const ENTRY = {
  version: '1.0.0',
  resolved: `${REGISTRY}/plain/-/plain-1.0.0.tgz`,
  integrity: `sha512-${'A'.repeat(86)}==`,
};
const lockOf = (packages: object) => JSON.stringify({ lockfileVersion: 3, packages: { '': {}, ...packages } });
const refusals = (entry: object, place = 'node_modules/plain') => {
  const after = lockedPackages(lockOf({ [place]: entry }));
  return refusedOf(after, changesBetween([], after)).map((it) => it.problem);
};

describe('a lockfile', () => {
  test('a lockfile with packages of the registry alone is taken', () => {
    expect(refusals(ENTRY)).toEqual([]);
    expect(refusals({ ...ENTRY, resolved: `${REGISTRY}/@own/x/-/x-1.0.0.tgz` }, 'node_modules/@own/x')).toEqual([]);
    expect(refusals({ ...ENTRY, resolved: `${REGISTRY}/@own%2fx/-/x-1.0.0.tgz` }, 'node_modules/@own/x')).toEqual([]);
    // An alias has the name of the package that it stands for.
    expect(refusals({ ...ENTRY, name: 'plain' }, 'node_modules/other')).toEqual([]);
    expect(refusals({ version: '1.0.0', inBundle: true }, 'node_modules/a/node_modules/b')).toEqual([]);
  });

  test.each([
    [{ resolved: 'git+ssh://git@github.com/a/b.git#1' }, /git repository/],
    [{ resolved: 'github:a/b' }, /git repository/],
    [{ resolved: 'https://registry.npmjs.org.evil.example/plain/-/plain-1.0.0.tgz' }, /not the registry/],
    [{ resolved: 'https://registry.npmjs.org@evil.example/plain/-/plain-1.0.0.tgz' }, /not the registry/],
    [{ resolved: 'http://registry.npmjs.org/plain/-/plain-1.0.0.tgz' }, /not the registry/],
    [{ resolved: `${REGISTRY}/evil/-/evil-1.0.0.tgz` }, /archive of another package/],
    [{ resolved: `${REGISTRY}/plain/-/plain-0.9.0.tgz` }, /archive of another package/],
    [{ resolved: `${REGISTRY}/plain/-/../../evil/-/plain-1.0.0.tgz` }, /archive of another package/],
    [{ resolved: 'file:../x' }, /folder/],
    [{ resolved: '../x', link: true }, /folder/],
    [{ resolved: undefined }, /where it comes from/],
    [{ resolved: undefined, inBundle: true }, /where it comes from/],
    [{ inBundle: true, integrity: undefined }, /no hash/],
    [{ integrity: undefined }, /no hash/],
    [{ integrity: 'sha1-AAAA' }, /no hash/],
  ])('a lockfile with %j is refused', (more, problem) => {
    expect(refusals({ ...ENTRY, ...more }).join()).toMatch(problem);
  });

  test('a lockfile in which a version has another content than before is refused', () => {
    const [before, after] = [ENTRY, { ...ENTRY, integrity: `sha512-${'B'.repeat(86)}==` }].map((it) =>
      lockedPackages(lockOf({ 'node_modules/plain': it })),
    ) as [ReturnType<typeof lockedPackages>, ReturnType<typeof lockedPackages>];
    expect(refusedOf(after, changesBetween(before, after))).toMatchObject([{ problem: /another content/ }]);
  });

  test('a lockfile can not forge a line, nor turn one around, where a person reads it', () => {
    const [it] = lockedPackages(lockOf({ 'node_modules/a\n+ safe\u202e': { version: '1\r+ x', license: 'MIT\n+ y' } }));
    expect(`${it?.name}${it?.version}${it?.license}`).not.toMatch(/[\n\r\u202e]/);
  });

  test('a lockfile of another form is UNSUPPORTED, and a missing one has no packages', () => {
    for (const text of ['', '[]', '{"packages":1}', 'x', '['.repeat(100_000)])
      expect(() => lockedPackages(text)).toThrow(/package-lock\.json/);
    expect(lockedPackages(null)).toEqual([]);
  });
});

test('a version that takes the place of the only other one of its name is a change; others are added and removed', () => {
  const of = (name: string, version: string) =>
    ({ place: `${name}@${version}`, name, version, integrity: version, hasScript: false, isBundled: false }) as const;
  const before = [of('a', '1'), of('b', '1'), of('c', '1'), of('d', '1')];
  const after = [of('a', '2'), of('b', '1'), of('b', '2'), of('c', '2'), of('c', '3')];
  const { added, removed, changed } = changesBetween(before, after);
  expect(added.map((it) => it.place)).toEqual(['b@2', 'c@2', 'c@3']);
  expect(removed.map((it) => it.place)).toEqual(['c@1', 'd@1']);
  expect(changed.map(({ from, to }) => [from.place, to.place])).toEqual([['a@1', 'a@2']]);
});

describe('the cool-down', () => {
  const terms = {
    ...toPackageSettings({ coolDownExcept: ['excepted', '@own/*'] }),
    notAfter: '2030-01-10T00:00:00.000Z',
  };
  const ids = (name: string, time?: string) => {
    const packages = lockedPackages(lockOf({ [`node_modules/${name}`]: ENTRY }));
    const times = time === undefined ? {} : { [`${name}@1.0.0`]: time };
    return questionableOf({ packages, times, ecosystem: 'npm' }, terms).map((it) => it.id);
  };

  test('holds for young versions and for those of unknown age, and not for excepted ones', () => {
    expect(ids('x', '2030-01-09T00:00:00.000Z')).toEqual([]);
    expect(ids('x', '2030-01-10T00:00:01.000Z')).toEqual(['fresh:x@1.0.0']);
    expect(ids('x')).toEqual(['fresh:x@1.0.0']);
    expect(ids('x', 'never')).toEqual(['fresh:x@1.0.0']);
    expect(ids('excepted')).toEqual([]);
    expect(ids('@own/x')).toEqual([]);
    expect(ids('@owner/x')).toEqual(['fresh:@owner/x@1.0.0']);
    expect(ids('__proto__')).toEqual(['fresh:__proto__@1.0.0']);
  });
});

test.each([undefined, null, 1, {}, { vulnerabilities: {} }, { message: 'x', error: {} }, { auditReportVersion: 2 }])(
  'the report %j says nothing of vulnerabilities: they are not checked',
  (report) => {
    expect(auditedBy(report)).toBe('not checked');
  },
);

test('a report of npm audit tells each advisory once, in one line', () => {
  const via = [{ title: 'Bad\n! forged', severity: 'high\n', url: 'https://x.example' }, 'other'];
  expect(auditedBy({ auditReportVersion: 2, vulnerabilities: { x: { via }, other: { via: ['x'] } } })).toEqual([
    { package: 'x', title: 'Bad ! forged', severity: 'unknown', url: 'https://x.example' },
  ]);
});

test('npm_install names one package as package_install takes it', () => {
  const parsed = builtinToolset().get('npm_install')?.parse({ package: 'left-pad', version: '1.3.0', dev: true });
  expect(parsed).toMatchObject({ manager: 'npm', packages: [{ name: 'left-pad', version: '1.3.0' }], dev: true });
});
