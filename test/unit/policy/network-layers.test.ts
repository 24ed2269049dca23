/** `tiers.execute.network` in policy files: what a child may say, and how layers combine. */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { networkOf } from '../../../src/pipeline/execute/bounds.ts';
import { differences } from '../../../src/policy/compare.ts';
import { narrow } from '../../../src/policy/compose.ts';
import { BUILT_IN, defaultPolicy, parsePolicy, projectPolicy } from '../../../src/policy/load.ts';
import { parseNetworkEntry } from '../../../src/policy/network.ts';
import type { Policy } from '../../../src/policy/schema.ts';
import { temporaryDir } from '../../support/daemon.ts';

const network = (value: string, more = '') => `tiers: { execute: { network: ${value} } }\n${more}`;
const parse = (text: string, parent?: Policy) => parsePolicy(text, 'p.yaml', parent && { parent });
const listed = (...entries: string[]) => entries.map(parseNetworkEntry);

describe('a file that extends another', () => {
  const parent = parse(network('{ allow: ["*.example.com", a.org] }'));
  test('has what that lists, unless it lists less', () => {
    expect(parse('version: 1', parent).tiers.execute.network).toEqual(listed('*.example.com', 'a.org'));
    expect(parse(network('{ allow: [b.example.com] }'), parent).tiers.execute.network).toEqual(listed('b.example.com'));
    expect(parse(network('none'), parent).tiers.execute.network).toBeUndefined();
  });
  test('lists more only where that opens it', () => {
    const more = network('{ allow: [a.org, b.org] }');
    expect(() => parse(more, parent)).toThrow(
      /p\.yaml:1:\d+: .*network\.allow\.1: b\.org is not among what p\.yaml lets/,
    );
    const open = parse(network('{ allow: [a.org] }', 'open: [tiers.execute]'));
    expect(parse(more, open).tiers.execute.network).toEqual(listed('a.org', 'b.org'));
  });
  test('has no network where nobody says so', () => {
    for (const policy of BUILT_IN.values()) expect(networkOf(policy)).toBeUndefined();
  });
});

describe('layers', () => {
  const base = parse(network('{ allow: [a.org, b.org] }'));
  test('each must list a host; one without a network leaves none', () => {
    const own = parse(network('{ allow: [b.org, c.org] }'));
    expect(networkOf(narrow(base, own))).toEqual([listed('a.org', 'b.org'), listed('b.org', 'c.org')]);
    expect(networkOf(narrow(base, defaultPolicy))).toBeUndefined();
    expect(networkOf(narrow(defaultPolicy, base))).toBeUndefined();
  });
  test('differ in their version and in `policy diff`', () => {
    const none = parse('version: 1');
    expect(none.version).not.toBe(base.version);
    expect(differences(none, base)).toEqual([{ what: 'tiers.execute.network', old: undefined, new: 'a.org, b.org' }]);
  });
  test('of a workspace that say nothing of the network leave it as it is', () => {
    const folder = temporaryDir('project');
    mkdirSync(join(folder, '.ringfence'));
    const own = (text: string) => {
      writeFileSync(join(folder, '.ringfence/policy.yaml'), text);
      return networkOf(narrow(base, projectPolicy(folder) as Policy));
    };
    expect(own('version: 1')).toEqual([listed('a.org', 'b.org')]);
    expect(own(network('{ allow: [a.org, x.org] }'))).toEqual([listed('a.org', 'b.org'), listed('a.org', 'x.org')]);
    expect(own(network('none'))).toBeUndefined();
    rmSync(folder, { recursive: true });
  });
});

test('the example lets npm install reach its registry, and nothing else', () => {
  const example = readFileSync(new URL('../../../examples/npm-install.yaml', import.meta.url), 'utf8');
  expect(networkOf(parse(example))).toEqual([listed('registry.npmjs.org:443')]);
});
