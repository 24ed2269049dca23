/** `tiers.execute.network` in policy files: what a child may say, and how layers combine. */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { asksOf, networkOf } from '../../../src/pipeline/execute/bounds.ts';
import { differences } from '../../../src/policy/compare.ts';
import { narrow } from '../../../src/policy/compose.ts';
import { BUILT_IN, defaultPolicy, parsePolicy, projectPolicy } from '../../../src/policy/load.ts';
import { mayAsk, parseNetworkEntry } from '../../../src/policy/network.ts';
import type { Policy } from '../../../src/policy/schema.ts';
import { temporaryDir } from '../../support/daemon.ts';

const network = (value: string, more = '') => `tiers: { execute: { network: ${value} } }\n${more}`;
const parse = (text: string, parent?: Policy) => parsePolicy(text, 'p.yaml', parent && { parent });
const listed = (...entries: string[]) => entries.map(parseNetworkEntry);

describe('a file that extends another', () => {
  const parent = parse(network('{ allow: ["*.example.com", a.org] }'));
  test('a child file has the network entries of its parent, unless it lists fewer', () => {
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
  test('asking is inherited, and closed by a file that names the network without it', () => {
    const asking = parse(network('{ allow: [a.org], ask: true }'));
    const asks = (policy: Policy) => policy.tiers.execute.networkAsks ?? false;
    expect(asks(asking)).toBe(true);
    expect(asks(parse('version: 1', asking))).toBe(true);
    expect(asks(parse(network('{ allow: [a.org] }'), asking))).toBe(false);
    expect(asks(parse(network('none'), asking))).toBe(false);
    expect(asking.version).not.toBe(parse(network('{ allow: [a.org] }')).version);
    expect(() => parse(network('{ allow: [], ask: true }'), parent)).toThrow(/network\.ask: a person could open hosts/);
  });
  test('the built-in policies list no host', () => {
    expect(networkOf(BUILT_IN.get('floor') as Policy)).toBeUndefined();
    for (const [name, policy] of BUILT_IN) if (name !== 'floor') expect(networkOf(policy), name).toEqual([[]]);
  });
});

describe('layers', () => {
  const base = parse(network('{ allow: [a.org, b.org] }'));
  test('a layer must list a host; one without a list leaves none', () => {
    const own = parse(network('{ allow: [b.org, c.org] }'));
    expect(networkOf(narrow(base, own))).toEqual([listed('a.org', 'b.org'), listed('b.org', 'c.org')]);
    expect(networkOf(narrow(base, defaultPolicy))).toEqual([listed('a.org', 'b.org'), []]);
    expect(networkOf(narrow(base, parse(network('none'))))).toBeUndefined();
  });
  test('a host is asked about only if each layer lists it or asks', () => {
    const asking = parse(network('{ allow: [], ask: true }'));
    const mayAskIn = (policy: Policy, host: string) =>
      mayAsk({ layers: networkOf(policy) ?? [], asks: asksOf(policy) }, { host, port: 443 });
    expect(mayAskIn(asking, 'a.org')).toBe(true);
    expect(mayAskIn(narrow(asking, base), 'a.org')).toBe(true);
    expect(mayAskIn(narrow(asking, base), 'c.org')).toBe(false);
    const folder = temporaryDir('project');
    mkdirSync(join(folder, '.ringfence'));
    const own = (text: string) => {
      writeFileSync(join(folder, '.ringfence/policy.yaml'), text);
      return narrow(asking, projectPolicy(folder) as Policy);
    };
    expect(mayAskIn(own('version: 1'), 'a.org')).toBe(true);
    expect(mayAskIn(own(network('{ allow: [b.org] }')), 'a.org')).toBe(false);
    expect(mayAskIn(own(network('{ allow: [b.org], ask: true }')), 'a.org')).toBe(true);
    rmSync(folder, { recursive: true });
  });
  test('differ in their version and in `policy diff`', () => {
    const none = parse(network('none'));
    expect(none.version).not.toBe(base.version);
    expect(differences(none, base)).toEqual([{ what: 'tiers.execute.network', old: undefined, new: 'a.org, b.org' }]);
  });
  test("a workspace's policy that does not mention the network leaves it unchanged", () => {
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
