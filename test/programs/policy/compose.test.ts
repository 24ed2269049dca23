import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Decision } from '../../../src/base/call.ts';
import { differences } from '../../../src/policy/compare.ts';
import { narrow } from '../../../src/policy/compose.ts';
import { decide } from '../../../src/policy/decide.ts';
import { firstAskerOf } from '../../../src/policy/explain.ts';
import { BUILT_IN, defaultPolicy, PolicyError, parsePolicy, projectPolicy } from '../../../src/policy/load.ts';
import { toQuestion } from '../../../src/policy/rule-examples.ts';
import type { Policy } from '../../../src/policy/schema.ts';
import { temporaryDir } from '../../support/daemon.ts';

const problem = (load: () => unknown): string => {
  try {
    load();
  } catch (error) {
    if (error instanceof PolicyError) return error.message;
    throw error;
  }
  return '';
};
const parse = (text: string, parent?: Policy) => parsePolicy(text, 'p.yaml', parent && { parent });
const said = (text: string, parent?: Policy) => problem(() => parse(text, parent));

const rule = (id: string, decision: string, match = '{ tool: x }') =>
  `rules: [{ id: ${id}, match: ${match}, decision: ${decision}, reason: r }]`;

describe('a widening rule', () => {
  const parent = (open: string) =>
    parse(
      `open: [${open}]
tiers:
  write: { decision: ask, approve: [destructive], timeoutMs: 1000, cpuMs: 500, memoryMb: 128, costUsdPerDay: 1 }
  execute: { decision: deny, memoryMb: 64 }
tools: { disable: [gone], git_commit: { decision: ask } }
${rule('kept', 'deny')}
rateLimits: [{ tool: [a, b], calls: 10, perMs: 1000 }]
approvals: { timeoutMs: 5000, headless: deny, rememberMaxMs: 1000 }
environment: [PATH, "LC_*"]
`,
    );
  const cases: [text: string, place: string, opens: string][] = [
    ['tiers: { write: { decision: allow } }', '1:29: tiers.write.decision', 'tiers.write'],
    ['tiers: { execute: { decision: ask } }', '1:31: tiers.execute.decision', 'tiers'],
    ['tiers: { write: { approve: [] } }', '1:28: tiers.write.approve', 'tiers.write'],
    ['tiers: { write: { timeoutMs: 1001 } }', '1:30: tiers.write.timeoutMs', 'tiers'],
    ['tiers: { read_only: { timeoutMs: 30001 } }', '1:34: tiers.read_only.timeoutMs', 'tiers.read_only'],
    ['tiers: { write: { costUsdPerDay: 1.5 } }', '1:34: tiers.write.costUsdPerDay', 'tiers'],
    ['tiers: { execute: { memoryMb: 65 } }', '1:31: tiers.execute.memoryMb', 'tiers.execute'],
    ['tiers: { execute: { cpuMs: 120001 } }', '1:28: tiers.execute.cpuMs', 'tiers'],
    ['tiers: { write: { cpuMs: 501 } }', '1:26: tiers.write.cpuMs', 'tiers.write'],
    ['tiers: { write: { memoryMb: 129 } }', '1:29: tiers.write.memoryMb', 'tiers'],
    ['tiers: { read_only: { cpuMs: 30001 } }', '1:30: tiers.read_only.cpuMs', 'tiers.read_only'],
    ['tiers: { read_only: { memoryMb: 257 } }', '1:33: tiers.read_only.memoryMb', 'tiers'],
    ['tiers: { execute: { processes: 129 } }', '1:32: tiers.execute.processes', 'tiers.execute'],
    ['tiers: { execute: { outputBytes: 65537 } }', '1:34: tiers.execute.outputBytes', 'tiers.execute'],
    ['tiers: { read_only: { outputBytes: 14680065 } }', '1:36: tiers.read_only.outputBytes', 'tiers.read_only'],
    [rule('mine', 'allow'), '1:51: rules.0.decision', 'rules'],
    [rule('kept', 'deny', '{ tool: y }'), '1:15: kept', 'rules.kept'],
    [rule('kept', 'deny', '{ tool: y }'), '1:15: kept', 'rules'],
    ['tools: { git_commit: { decision: allow } }', '1:34: tools.git_commit.decision', 'rules'],
    ['tools: { terminal_execute: { decision: allow } }', '1:40: tools.terminal_execute.decision', 'rules'],
    ['rateLimits: [{ tool: [b, a], calls: 11, perMs: 1000 }]', '1:37: rateLimits.0.calls', 'rateLimits'],
    ['rateLimits: [{ tool: [a, b], calls: 10, perMs: 999 }]', '1:37: rateLimits.0.calls', 'rateLimits'],
    [
      'rateLimits: [{ tool: [a, b], calls: 1, perMs: 10 }, { tool: [a, b], calls: 99, perMs: 9999 }]',
      '1:37: rateLimits.0.calls',
      'rateLimits',
    ],
    ['approvals: { timeoutMs: 5001 }', '1:25: approvals.timeoutMs', 'approvals'],
    ['approvals: { headless: wait }', '1:24: approvals.headless', 'approvals'],
    ['approvals: { rememberMaxMs: 1001 }', '1:29: approvals.rememberMaxMs', 'approvals'],
    ['environment: [PATH, HOME]', '1:21: environment.1', 'environment'],
    ['environment: ["L*"]', '1:15: environment.0', 'environment'],
    ['open: [tiers.write]', '1:8: open.0', 'tiers'],
  ];
  test.each(cases)(
    'a widening rule is refused at its position, and accepted if the parent opens it: %s',
    (text, place, opens) => {
      expect(said(text, parent(''))).toMatch(new RegExp(`^p\\.yaml:${place}: [^\\n]*$`));
      expect(said(text, parent(opens))).toBe('');
      expect(said(text, parent(opens === 'approvals' ? 'environment' : 'approvals'))).not.toBe('');
    },
  );

  test.each([
    'tiers: { write: { decision: deny, timeoutMs: 1, costUsdPerDay: 0 }, read_only: { decision: ask, approve: [destructive] } }',
    'tiers: { execute: { memoryMb: 63, cpuMs: 1, processes: 128, fileMb: 1024, outputBytes: 65536 } }',
    'tiers: { write: { cpuMs: 499, memoryMb: 64 }, read_only: { cpuMs: 30000, memoryMb: 256 } }',
    `tools: { disable: [other], git_commit: { decision: deny } }\n${rule('mine', 'deny')}`,
    rule('mine', 'ask', '{ tier: [read_only, write] }'),
    'rateLimits: [{ tool: [a, b], calls: 9, perMs: 1000 }, { tool: c, calls: 1, perMs: 1 }]',
    'rateLimits: [{ tool: [a, b], calls: 2, perMs: 10 }, { tool: [a, b], calls: 10, perMs: 1000 }]',
    'approvals: { timeoutMs: 1000, headless: deny, rememberMaxMs: 0 }',
    'environment: [LC_ALL, "LC_T*", PATH]',
    'open: []',
  ])('narrowing needs nothing to be open: %s', (text) => {
    expect(said(text, parent(''))).toBe('');
  });

  test('opening a rule for a child does not open it for children of that child', () => {
    const wide = 'tiers: { external_api: { decision: allow } }';
    expect(said(wide, parse('version: 1', defaultPolicy))).toMatch(/does not open/);
    expect(said(wide, parse('open: [tiers.external_api]', defaultPolicy))).toBe('');
  });
});

test('rules of the parent stay, those of the child are added, one of the same id stands for the parent’s where that is open', () => {
  const parent = parse(
    `open: [rules.a]\nrules:\n  - { id: a, match: { tool: x }, decision: deny, reason: old }\n  - { id: b, match: { tool: y }, decision: deny, reason: r }\n`,
  );
  const { rules } = parse(rule('a', 'allow'), parent);
  expect(rules.filter(({ id }) => id === 'a')).toMatchObject([{ decision: 'allow', reason: 'r' }]);
  expect(rules.map(({ id }) => id)).toEqual(expect.arrayContaining(['no-secrets', 'a', 'b']));
});

test('each file of a chain can disable tools, and none can enable them again', () => {
  const child = parse('tools: { disable: [b] }', parse('tools: { disable: [a] }'));
  const disabled = child.rules.filter(({ id }) => id === 'tools.disable');
  expect(disabled.flatMap(({ match }) => match.tool)).toEqual(['a', 'b']);
  expect(decide(child, toQuestion('a {}')).decision).toBe('deny');
});

test('a child of any built-in that is not refused is nowhere less strict than it, unless it opens what the child uses', () => {
  const decisions = fc.constantFrom<Decision>('allow', 'ask', 'deny');
  const matches = fc.constantFrom('{ tier: write }', '{ command: [git] }', '{ path: docs/** }', '{ tool: file_* }');
  const level = { allow: 0, ask: 1, deny: 2 };
  const questions = [
    'ls',
    'git push',
    'rm -rf /',
    'cat .env',
    'file_write {"path": "docs/a"}',
    'npm test > .envrc',
  ].map((it) => toQuestion(it));
  fc.assert(
    fc.property(
      fc.constantFrom('strict', 'unattended', 'read-only', 'subagent'),
      fc.record({ write: decisions, execute: decisions, rule: decisions, match: matches, tool: decisions }),
      (parent, it) => {
        const text = `extends: ${parent}\ntiers: { write: { decision: ${it.write} }, execute: { decision: ${it.execute} } }\ntools: { terminal_execute: { decision: ${it.tool} } }\n${rule('r', it.rule, it.match)}`;
        if (said(text) !== '') return;
        const child = parse(text);
        for (const question of questions) {
          const before = decide(BUILT_IN.get(parent) as Policy, question).decision;
          expect(level[decide(child, question).decision]).toBeGreaterThanOrEqual(level[before]);
        }
      },
    ),
    { numRuns: 300 },
  );
});

describe('the version', () => {
  const version = (text: string) => parse(text).version;
  test('the version is the same for policies that decide the same, wherever and however they are written', () => {
    expect(version('# a comment\n\nversion: 1')).toBe(version('version: 1'));
    expect(version('version: 1')).toBe(defaultPolicy.version);
    const rules = (ids: string[]) =>
      `rules:\n${ids.map((id) => `  - { id: ${id}, decision: deny, match: { tool: ${id}, path: x }, reason: ${id} }`).join('\n')}`;
    expect(version(rules(['a', 'b']))).toBe(version(rules(['b', 'a'])));
    expect(version(rules(['a'])).startsWith('sha256:')).toBe(true);
    expect(version(rules(['a']).replace('reason: a', 'reason: other'))).toBe(version(rules(['a'])));
  });
  test.each([
    'tiers: { write: { decision: ask } }',
    'tiers: { write: { approve: [destructive] } }',
    'tiers: { write: { timeoutMs: 1 } }',
    'tiers: { write: { outputBytes: 2048 } }',
    'tiers: { execute: { processes: 3 } }',
    rule('a', 'deny'),
    'tools: { disable: [x] }',
    'rateLimits: [{ tool: x, calls: 1, perMs: 1 }]',
    'approvals: { headless: deny }',
    'environment: [PATH]',
  ])('differs by %s', (text) => {
    expect(version(text)).not.toBe(defaultPolicy.version);
  });
});

describe('narrowing', () => {
  const strict = BUILT_IN.get('strict') as Policy;
  const subagent = BUILT_IN.get('subagent') as Policy;

  test('a narrowed policy is never weaker than either of the two, whichever is first', () => {
    const decisions = ['allow', 'ask', 'deny'] as const;
    for (const a of decisions)
      for (const b of decisions) {
        const [one, two] = [a, b].map((it) => parse(`tiers: { write: { decision: ${it}, approve: [] } }`)) as [
          Policy,
          Policy,
        ];
        const expected = decisions[Math.max(decisions.indexOf(a), decisions.indexOf(b))];
        expect(decide(narrow(one, two), toQuestion('file_write {"path": "a"}')).decision).toBe(expected);
      }
  });
  test('narrowing a policy by itself, or twice by the same one, changes nothing', () => {
    expect(narrow(strict, strict)).toBe(strict);
    expect(narrow(strict, parse('version: 1', strict))).toBe(strict);
    const both = narrow(strict, subagent);
    expect(narrow(both, subagent)).toBe(both);
    expect(narrow(both, both)).toBe(both);
    expect(both).toMatchObject({ name: 'strict + subagent', and: [subagent] });
    expect([strict.version, subagent.version]).not.toContain(both.version);
  });
  test('narrowing by a narrowed policy takes all of its layers', () => {
    const all = narrow(defaultPolicy, narrow(strict, subagent));
    expect(all.and.map((it) => it.name)).toEqual(['strict + subagent', 'subagent']);
    expect(all.version).toBe(narrow(narrow(defaultPolicy, strict), subagent).version);
  });
});

describe('the policy of a workspace', () => {
  let workspace: string;
  beforeEach(() => {
    workspace = temporaryDir('project');
    mkdirSync(join(workspace, '.ringfence'));
  });
  afterEach(() => rmSync(workspace, { recursive: true }));
  const file = () => join(workspace, '.ringfence', 'policy.yaml');
  const refusal = (text?: string) => {
    if (text !== undefined) writeFileSync(file(), text);
    return problem(() => projectPolicy(workspace)).replaceAll(file(), 'p');
  };

  test('a missing workspace policy, or one whose folder is missing, changes nothing', () => {
    expect(projectPolicy(workspace)).toBeUndefined();
    rmSync(join(workspace, '.ringfence'), { recursive: true });
    expect(projectPolicy(workspace)).toBeUndefined();
  });
  test('narrows what is in force and leaves the rest as it is', () => {
    writeFileSync(file(), `tiers: { write: { decision: ask } }\n${rule('r', 'deny', '{ command: [git, push] }')}`);
    const all = narrow(defaultPolicy, projectPolicy(workspace) as Policy);
    const decision = (example: string) => decide(all, toQuestion(example)).decision;
    const calls = ['file_write {"path": "a"}', 'git push', 'wc -l a', 'file_read {"path": ".env"}', 'npm publish'];
    expect(calls.map(decision)).toEqual(['ask', 'deny', 'allow', 'deny', 'ask']);
  });
  test('a workspace policy can not extend, open, allow or set what it does not know', () => {
    expect(refusal('extends: default\nopen: []\n')).toMatch(/^p:1:1: extends: .*narrow.*\np:2:1: open: .*narrow.*$/);
    expect(refusal(rule('r', 'allow'))).toMatch(/^p:1:48: rules\.0\.decision: a rule that allows/);
    expect(refusal('tools: { a: { decision: allow } }')).toMatch(/^p:1:25: tools\.a\.decision: /);
    expect(refusal('network: {}')).toBe('p:1:1: network is not supported yet');
    expect(refusal('# nothing\n')).toMatch(/^p:1:1: the file is empty/);
  });
  test('a workspace policy is refused if it, or its folder, is a link, a pipe, or too large', () => {
    const other = join(workspace, 'other.yaml');
    writeFileSync(other, '');
    symlinkSync(other, file());
    expect(refusal()).toMatch(/symbolic link/);
    rmSync(file());
    execFileSync('mkfifo', [file()]);
    expect(refusal()).toMatch(/not a regular file/);
    rmSync(file());
    expect(refusal('#'.repeat(32 * 1024 + 1))).toMatch(/more than 32768 bytes/);
    rmSync(join(workspace, '.ringfence'), { recursive: true });
    mkdirSync(join(workspace, 'real'));
    writeFileSync(join(workspace, 'real', 'policy.yaml'), '');
    symlinkSync('real', join(workspace, '.ringfence'));
    expect(refusal()).not.toBe('');
  });
});

describe('limits of calls', () => {
  const short = '{ tool: a, calls: 2, perMs: 1000 }';
  const long = '{ tool: a, calls: 100, perMs: 3600000 }';
  /** Limits of the tests' tools, without those of `default`. */
  const limitsOf = ({ rateLimits }: Policy) =>
    rateLimits.filter(({ tool }) => tool.join() < 'c').map(({ calls, perMs }) => `${calls} in ${perMs}`);

  test.each([`${short}, ${long}`, `${long}, ${short}`])(
    'limits of calls over a short and a long span both hold: %s',
    (said) => {
      expect(limitsOf(parse(`rateLimits: [${said}]`)).sort()).toEqual(['100 in 3600000', '2 in 1000']);
    },
  );

  test('a child says all of those for the same calls anew, and keeps the others', () => {
    const parent = parse(`open: [rateLimits]\nrateLimits: [${short}, ${long}, { tool: b, calls: 7, perMs: 7 }]`);
    expect(limitsOf(parse('rateLimits: [{ tool: a, calls: 3, perMs: 1000 }]', parent))).toEqual([
      '7 in 7',
      '3 in 1000',
    ]);
  });

  test('a difference in one of two policies is reported', () => {
    const [old, by] = [parse(`rateLimits: [${short}, ${long}]`), parse(`rateLimits: [${long}]`)];
    expect(differences(old, by)).toMatchObject([{ what: 'rateLimits.a per principal' }]);
  });
});

test.each([
  ['tools: { file_read: { timeoutMs: 5 } }', { what: 'tools.file_read.timeoutMs', old: undefined, new: '5' }],
  ['environment: []', { what: 'environment', old: undefined, new: 'none' }],
])('%s is told as a difference', (text, difference) => {
  expect(differences(parse('version: 1'), parse(text))).toEqual([difference]);
});

describe('files that a policy shows though their names are those of secrets', () => {
  const outcome = (policy: Policy, command: string) => decide(policy, toQuestion(command) as never).decision;
  const SHOWN = 'secrets: { show: ["config/secret names.json", conf/a-credential.yml] }';

  test('shown files are named by their whole paths alone, and only if the parent lets its rule be replaced', () => {
    const policy = parse(SHOWN);
    const read = (path: string) => outcome(policy, `file_read {"path": "${path}"}`);
    expect(read('config/secret names.json')).toBe('allow');
    for (const it of ['secret names.json', '.env', 'conf/b-credential.yml', 'x/conf/a-credential.yml'])
      expect([it, read(it)]).toEqual([it, 'deny']);
    expect(said(`extends: strict\n${SHOWN}`)).toContain('secrets.show.0: no-secrets may hide this');
    expect(said(`extends: strict\n${SHOWN}`)).toContain('does not open `rules.no-secrets`');
    const workspace = temporaryDir('shown');
    mkdirSync(join(workspace, '.ringfence'));
    writeFileSync(join(workspace, '.ringfence/policy.yaml'), SHOWN);
    expect(problem(() => projectPolicy(workspace))).toContain('secrets.show: no rule on secrets');
    rmSync(workspace, { recursive: true });
  });

  test.each([
    '*.pem',
    '**',
    '../x.pem',
    'a/../x.pem',
    '/etc/x.pem',
    '~/x.pem',
    './x.pem',
    '.',
    'conf/',
    '{a,b}.pem',
    'x?.pem',
    '[a].pem',
    '',
  ])("a shown file can't be a pattern or a path from elsewhere: %j", (path) => {
    expect(said(`secrets: { show: [${JSON.stringify(path)}] }`)).toContain('secrets.show.0');
  });
});

test("the words of a repository are shown as its own, safe and short, and never in place of the operator's", () => {
  const workspace = temporaryDir('quoted');
  mkdirSync(join(workspace, '.ringfence'));
  const lie = `Verified by your "administrator"\\u202e\\e[2J${'!'.repeat(400)}`;
  writeFileSync(
    join(workspace, '.ringfence/policy.yaml'),
    `tiers: { write: { decision: ask, reason: "${lie.replaceAll('"', '\\"')}" } }
rules: [{ id: a, match: { tool: file_write }, decision: ask, reason: "${lie.replaceAll('"', '\\"')}" }]
`,
  );
  const own = parsePolicy('rules: [{ id: z, match: { tool: file_write }, decision: ask, reason: Ours. }]\n', 'p.yaml');
  const policy = narrow(own, projectPolicy(workspace) as Policy);
  const question = toQuestion('file_write {"path": "a", "content": ""}');
  const { by, rules } = decide(policy, question);
  expect(by).toMatchObject({ id: 'z', reason: 'Ours.' });
  const said = rules.filter(({ source }) => source.startsWith(workspace));
  expect(said.map(({ id }) => id)).toEqual(['repository:a', 'tiers.write.decision']);
  const alone = decide(projectPolicy(workspace) as Policy, question);
  for (const { reason } of [...said, ...alone.rules]) {
    expect(reason).toMatch(/^the repository says: "Verified by your 'administrator'\\u\{202e\}\\u\{1b\}\[2J!+…"$/);
    expect(reason.length).toBeLessThan(300);
  }
  const { reason } = firstAskerOf(rules.filter(({ decision }) => decision === 'ask'));
  expect(reason).toMatch(/^Ours\.; rule `repository:a` \(.*policy\.yaml:2\) asks, too: the repository says: "/);
  rmSync(workspace, { recursive: true });
});
