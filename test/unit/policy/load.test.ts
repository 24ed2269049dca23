import { chmodSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { decide, narrow } from '../../../src/policy/decide.ts';
import { defaultPolicy, loadPolicy, parsePolicy } from '../../../src/policy/load.ts';
import { temporaryDir } from '../../support/daemon.ts';

const problem = (text: string): string => {
  try {
    parsePolicy(text, 'p.yaml');
  } catch (error) {
    return (error as Error).message;
  }
  return 'taken';
};

test('a tier that the file does not name is as in default', () => {
  const policy = parsePolicy('version: 1\ntiers:\n  execute: { decision: allow }\n', 'p.yaml');
  expect(decide(policy, { tier: 'execute', effects: [] })).toMatchObject({
    decision: 'allow',
    rule: { source: 'p.yaml:3', id: 'tiers.execute.decision' },
  });
  expect(decide(policy, { tier: 'external_api', effects: [] })).toMatchObject({
    decision: 'ask',
    rule: { source: 'built-in:default' },
  });
  expect(parsePolicy('', 'p.yaml').tiers).toEqual(defaultPolicy.tiers);
});

describe('is refused whole, with the place of each problem:', () => {
  const cases: [string, RegExp][] = [
    ...[
      'extends: default',
      'tools: {}',
      'rules: []',
      'network: {}',
      'rateLimits: []',
      'approvals: {}',
      'environment: []',
      'secrets: {}',
    ].map(
      (line) => [line, new RegExp(`^p\\.yaml:2:\\d+: ${line.split(':')[0]} is not supported yet`)] as [string, RegExp],
    ),
    [
      'tiers: { execute: { decision: allow, timeoutMs: 1 } }',
      /p\.yaml:2:\d+: tiers\.execute\.timeoutMs is not supported yet/,
    ],
    ['tiers: { execute: { decision: maybe } }', /p\.yaml:2:31: tiers\.execute\.decision/],
    ['tiers: { exec: { decision: allow } }', /p\.yaml:2:\d+: tiers\.exec is not supported/],
    ['version: 1', /p\.yaml:2:\d+: Map keys must be unique/],
    ['tiers: [', /p\.yaml:\d+:\d+: /],
    ['- a list', /p\.yaml:2:/],
  ];
  test.each(cases)('%s', (line, said) => {
    expect(problem(`version: 1\n${line}\n`)).toMatch(said);
  });

  test.each([
    'tiers: !!omap [ {read_only: {decision: deny}} ]',
    '!!set { extends }',
    'tiers: !!timestamp 2001-01-01',
    '%YAML 1.1\n---\ntiers: 2001-01-01',
    'tiers: { write: { decision: !foo deny } }',
  ])('tags and directives: %s', (text) => {
    expect(problem(text)).toMatch(/^p\.yaml:\d+:\d+: /);
  });

  test('another version', () => {
    expect(problem('version: 2\n')).toMatch(/^p\.yaml:1:10: version/);
  });

  test('aliases that multiply', () => {
    const bomb = [
      'a: &a [x, x]',
      ...'bcdefghij'.split('').map((it, i) => `${it}: &${it} [${Array(9).fill(`*${'abcdefghij'[i]}`).join(', ')}]`),
    ];
    expect(problem(bomb.join('\n'))).toMatch(/alias/i);
  });
});

test('a file that others can write is refused, and so is one that is not there', () => {
  const folder = temporaryDir('policy');
  const file = join(folder, 'p.yaml');
  writeFileSync(file, '');
  chmodSync(file, 0o666);
  expect(() => loadPolicy(file)).toThrow(/chmod go-w/);
  expect(() => loadPolicy(join(folder, 'none'))).toThrow(/no built-in policy \(default\)/);
  rmSync(folder, { recursive: true });
});

test('narrowing is never weaker than either', () => {
  const decisions = ['allow', 'ask', 'deny'] as const;
  for (const a of decisions)
    for (const b of decisions) {
      const [one, two] = [a, b].map((it) => parsePolicy(`tiers: { write: { decision: ${it} } }`, `${it}.yaml`)) as [
        typeof defaultPolicy,
        typeof defaultPolicy,
      ];
      const expected = decisions[Math.max(decisions.indexOf(a), decisions.indexOf(b))];
      expect(narrow(one, two).tiers.write.decision).toBe(expected);
    }
});
