import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { BUILT_IN, defaultPolicy, loadPolicy, PolicyError, parsePolicy, readPolicy } from '../../../src/policy/load.ts';
import { temporaryDir } from '../../support/daemon.ts';

const problemsOf = (load: () => unknown): readonly string[] => {
  try {
    load();
  } catch (error) {
    if (error instanceof PolicyError) return error.problems;
    throw error;
  }
  return [];
};
const problems = (text: string) => problemsOf(() => parsePolicy(text, 'p.yaml'));
const problem = (text: string) => problems(text).join('\n');

test('a tier that the file does not name is as in default', () => {
  const policy = parsePolicy('version: 1\ntiers:\n  execute: { decision: deny }\n', 'p.yaml');
  expect(policy.tiers.execute).toMatchObject({
    decision: 'deny',
    source: 'p.yaml:3',
    id: 'tiers.execute.decision',
    reason: 'the policy says deny',
  });
  expect(policy.tiers.external_api).toMatchObject({
    decision: 'ask',
    source: expect.stringMatching(/^built-in:default:\d+$/),
  });
  expect(parsePolicy('version: 1', 'p.yaml').tiers).toEqual(defaultPolicy.tiers);
});

test.each(['', '\n\n', '# only a comment\n', '---\n', 'null'])(
  'a policy that says nothing is refused, not taken for default: %j',
  (text) => {
    expect(() => parsePolicy(text, 'p.yaml')).toThrow(/^p\.yaml:1:1: the file is empty/);
  },
);

test.each(['\x7f', '\\e[2J', '\\u202e'])(
  'a value with %j in a problem can not control the terminal that shows it',
  (unseen) => {
    const [told = ''] = problems(`version: 1\ntiers: { execute: { network: { allow: ["${unseen}a.org:x"] } } }\n`);
    expect(told).toMatch(/\\u\{[0-9a-f]+\}/);
    expect(told).not.toMatch(/\p{C}/u);
  },
);

describe('a policy that is refused', () => {
  const cases: [string, RegExp][] = [
    ['network: {}', /^p\.yaml:2:1: network is not supported yet$/],
    ...['undo: true', 'processes: 1', 'fileMb: 1'].map((it): [string, RegExp] => [
      `tiers: { read_only: { decision: allow, ${it} } }`,
      new RegExp(`^p\\.yaml:2:40: tiers\\.read_only\\.${it.split(':')[0]} is not supported yet$`),
    ]),
    ['tiers: { external_api: { cpuMs: 1 } }', /^p\.yaml:2:26: tiers\.external_api\.cpuMs is not supported yet$/],
    ['tiers: { write: { memoryMb: 63 } }', /^p\.yaml:2:29: tiers\.write\.memoryMb: /],
    ['tiers: { execute: { memoryMb: 0 } }', /^p\.yaml:2:31: tiers\.execute\.memoryMb: /],
    ['tiers: { write: { outputBytes: 1023 } }', /^p\.yaml:2:32: tiers\.write\.outputBytes: /],
    ['tiers: { execute: { sandbox: preferred } }', /^p\.yaml:2:30: tiers\.execute\.sandbox: must be `required`/],
    ['tiers: { execute: { network: host } }', /^p\.yaml:2:30: tiers\.execute\.network: takes `none`, or/],
    ['tiers: { write: { network: { allow: [a.org] } } }', /^p\.yaml:2:28: tiers\.write\.network: must be `none`/],
    [
      'tiers: { execute: { network: { allow: [a.org, "*"] } } }',
      /^p\.yaml:2:\d+: tiers\.execute\.network\.allow\.1: \* is no/,
    ],
    ['tiers: { execute: { network: { allow: [10.0.0.1/8] } } }', /^p\.yaml:2:\d+: .*10\.0\.0\.1\/8 is not a host/],
    ['tiers: { execute: { network: { allow: [] } } }', /^p\.yaml:2:\d+: tiers\.execute\.network\.allow: /],
    ['tiers: { execute: { decision: maybe } }', /^p\.yaml:2:31: tiers\.execute\.decision: /],
    ['tiers: { exec: { decision: allow } }', /^p\.yaml:2:10: tiers\.exec is unknown; did you mean execute\?$/],
    ['tier: {}', /^p\.yaml:2:1: tier is unknown; did you mean tiers\?$/],
    ['zzz: {}', /^p\.yaml:2:1: zzz is unknown; there are: version, extends, /],
    ['version: 1', /^p\.yaml:2:1: Map keys must be unique/],
    ['tiers: [', /^p\.yaml:\d+:\d+: /],
    ['- a list', /^p\.yaml:2:/],
    ['rules: [{ id: a, match: { tool: x }, decision: deny }]', /^p\.yaml:2:9: rules\.0\.reason is missing$/],
    [
      'rules: [{ id: a, match: {}, decision: deny, reason: r }]',
      /^p\.yaml:2:25: rules\.0\.match: must name at least one/,
    ],
    [
      'rules: [{ id: a, match: { not: { comand: [x] } }, decision: deny, reason: r }]',
      /^p\.yaml:2:34: rules\.0\.match\.not\.comand is unknown; did you mean command\?$/,
    ],
    [
      'rules: [{ id: a, match: { tool: 1 }, decision: deny, reason: r }]',
      /^p\.yaml:2:33: rules\.0\.match\.tool: takes a text or a list/,
    ],
    [
      'rules: [{ id: a, match: { tool: [x, 1] }, decision: deny, reason: r }]',
      /^p\.yaml:2:37: rules\.0\.match\.tool\.1: /,
    ],
    [
      'rules: [{ id: a, match: { path: "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}" }, decision: deny, reason: r }]',
      /^p\.yaml:2:25: a: pattern expands to more than 64/,
    ],
    [
      'rules: [{ id: a, match: { tool: x }, decision: ask, reason: r, sensitive: true }]',
      /^p\.yaml:2:64: sensitive is for rules whose/,
    ],
    ['rateLimits: [{ tool: x, calls: 0, perMs: 1 }]', /^p\.yaml:2:32: rateLimits\.0\.calls: /],
    ['environment: [PATH, "A B"]', /^p\.yaml:2:21: environment\.1: /],
    ['open: [everything]', /^p\.yaml:2:8: open\.0: /],
    ['1: x', /^p\.yaml:2:1: keys are plain texts$/],
    ['__proto__: { a: 1 }', /^p\.yaml:2:1: __proto__ is no key$/],
    ['? [a]\n: b', /^p\.yaml:2:3: keys are plain texts$/],
  ];
  test.each(cases)('a policy is refused as a whole with the place of each problem: %s', (line, said) => {
    expect(problem(`version: 1\n${line}\n`)).toMatch(said);
  });

  test('the error lists all problems at once, each on its own line', () => {
    const text = 'network: {}\ntiers:\n  write: { decision: never, undo: true }\nrulez: []\nrateLimits: 1\n';
    expect(problems(text).map((it) => it.split(': ')[0])).toEqual(
      expect.arrayContaining(['p.yaml:1:1', 'p.yaml:3:22', 'p.yaml:3:29', 'p.yaml:4:1', 'p.yaml:5:13']),
    );
    const rule = (id: string) => `  - { id: ${id}, match: { tool: x }, decision: allow, reason: r, sensitive: true }\n`;
    expect(problems(`extends: strict\nrules:\n${rule('a')}${rule('a')}`).map((it) => it.split(' ')[0])).toEqual([
      'p.yaml:4:11:', // twice the same id
      'p.yaml:3:62:', // sensitive without deny
      'p.yaml:4:62:',
      'p.yaml:3:44:', // allow on a parent that does not open rules
      'p.yaml:4:44:',
    ]);
  });

  test.each([
    'tiers: !!omap [ {read_only: {decision: deny}} ]',
    '!!set { extends }',
    'tiers: !!timestamp 2001-01-01',
    '%YAML 1.1\n---\ntiers: 2001-01-01',
    'tiers: { write: { decision: !foo deny } }',
    '!foo tiers: {}',
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
    expect(problem(bomb.join('\n'))).toMatch(/^p\.yaml:\d+:\d+: more than 50000 values, aliases counted in full$/);
  });

  test('nesting too deep, by brackets, by aliases, and deeper than the stack', () => {
    expect(problem(`a: ${'['.repeat(40)}${']'.repeat(40)}`)).toMatch(/^p\.yaml:1:\d+: nested more than 32 levels deep/);
    const chain = Array.from({ length: 40 }, (_, i) => `a${i}: &a${i} [${i === 0 ? '' : `*a${i - 1}`}]`);
    expect(problem(chain.join('\n'))).toMatch(/^p\.yaml:\d+:\d+: nested more than 32 levels deep/);
    expect(problem('['.repeat(100_000))).toMatch(/^p\.yaml:\d+:\d+: /);
  });

  test('aliases of nothing, and of what they stand in', () => {
    expect(problem('tiers: *none')).toBe('p.yaml:1:8: the alias *none names nothing that stands before it');
    expect(problem('tiers: &a { write: *a }')).toMatch(/^p\.yaml:1:20: the alias \*a names nothing/);
  });
});

test('an error inside an aliased value is placed where the value is written, an alias that does not fit where it is used', () => {
  const text = 'tiers:\n  write: &t { decision: never }\n  execute: *t\n';
  expect(problems(text).map((it) => it.split(': ').slice(0, 2))).toEqual([
    ['p.yaml:2:25', 'tiers.write.decision'],
    ['p.yaml:2:25', 'tiers.execute.decision'],
  ]);
  expect(problem('open: &o [tiers]\ntiers: { write: *o }\n')).toMatch(/^p\.yaml:2:17: tiers\.write: /);
});

test('a rule stands at the line of its item, tools at theirs', () => {
  const { rules } = parsePolicy(
    'tools:\n  disable: [web_search, "mcp:*"]\n  git_commit: { decision: ask }\nrules:\n  - id: a\n    match: { path: x }\n    decision: deny\n    reason: r\n    sensitive: true\n',
    'p.yaml',
  );
  const own = rules.filter(({ source }) => source.startsWith('p.yaml'));
  expect(own).toMatchObject([
    {
      id: 'tools.disable',
      source: 'p.yaml:2',
      decision: 'deny',
      code: 'TOOL_DISABLED',
      match: { tool: ['web_search', 'mcp:*'] },
    },
    { id: 'tools.git_commit.decision', source: 'p.yaml:3', decision: 'ask', match: { tool: 'git_commit' } },
    { id: 'a', source: 'p.yaml:5', decision: 'deny', code: 'SENSITIVE_FILE' },
  ]);
});

test('names in complaints can not drive a terminal or forge a line', () => {
  const said = problem('"\\e[2J\\nfake.yaml:1:1: taken \\u202e": 1\n');
  expect(said).not.toMatch(/[\p{C}]/u);
  expect(said.length).toBeLessThan(300);
  expect(problems(Array.from({ length: 500 }, (_, i) => `k${i}: 1`).join('\n'))).toHaveLength(51);
});

test('whatever the text is, it is taken or refused with places, and nothing else is thrown', () => {
  const piece = fc.constantFrom(
    ...[
      'version: 1',
      'tiers:',
      ' write:',
      ' {',
      '}',
      '[',
      ']',
      'decision: ask',
      '- id: a',
      '&a',
      '*a',
      '!!x',
      '\n',
      '\n  ',
    ],
    ...[
      ': ',
      ', ',
      '"',
      "'",
      '|',
      '>',
      '#',
      '%',
      '---',
      '...',
      '?',
      'rules: ',
      'match: ',
      'all: ',
      '\t',
      '<<: ',
      '~',
      '\u0000',
      'ü',
    ],
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
      for (const it of problems(pieces.join(''))) expect(it).toMatch(/^p\.yaml:\d+:\d+: /);
    }),
    { numRuns: 500 },
  );
});

describe('examples', () => {
  const withExample = (decision: string, examples: string) =>
    `rules:\n  - id: history\n    match: { command: [git, [log, push]] }\n    decision: ${decision}\n    reason: r\n    examples: ${examples}\n`;

  test('examples that hold are taken', () => {
    expect(problem(withExample('ask', '{ match: [git log -3, ls && git push], no_match: [git status] }'))).toBe('');
  });
  test('examples that fail are named with their rule and their place', () => {
    expect(problems(withExample('ask', '{ match: [git log, git status], no_match: [git push] }'))).toEqual([
      'p.yaml:6:34: history: example `git status`: the rule does not match it, and it should',
      'p.yaml:6:58: history: example `git push`: the rule matches it, and it should not',
    ]);
  });
  test('examples of tools are judged by the effects that the tool declares', () => {
    const text = (example: string) =>
      `rules:\n  - id: a\n    match: { read: docs/** }\n    decision: deny\n    reason: r\n    examples: { no_match: ['${example}'] }\n`;
    const effectsOf = (tool: string, { path }: { path?: unknown }) =>
      tool === 'file_write' ? { effects: [{ kind: 'write' as const, target: path as string }] } : undefined;
    const example = 'file_write {"path": "docs/a"}';
    expect(problems(text(example))).toHaveLength(1);
    expect(() => parsePolicy(text(example), 'p.yaml', { effectsOf })).not.toThrow();
    const refusing = () => {
      throw new Error('no such\n input');
    };
    expect(problemsOf(() => parsePolicy(text(example), 'p.yaml', { effectsOf: refusing }))[0]).toMatch(
      /can't be judged: no such input$/,
    );
  });
  test('examples of a rule for one principal are calls by that principal', () => {
    const text =
      'rules:\n  - id: a\n    match: { tool: "file_*", when: { principal: nightly } }\n    decision: deny\n    reason: r\n    examples: { match: [\'file_read {"path": "a"}\'], no_match: [ls] }\n';
    expect(problem(text)).toBe('');
  });
  test('examples that would cost too much to try are refused untried', () => {
    const long = `"${'x'.repeat(1000)}"`;
    const rules = `rules:\n  - id: a\n    match: { any: &m [${Array(32)
      .fill(`{ path: "${'a'.repeat(500)}" }`)
      .join(
        ', ',
      )}] }\n    decision: deny\n    reason: r\n    examples: { no_match: &e [${Array(64).fill(long).join(', ')}] }\n`;
    const more = Array.from(
      { length: 100 },
      (_, i) => `  - { id: b${i}, match: { any: *m }, decision: deny, reason: r, examples: { no_match: *e } }\n`,
    );
    expect(problem(rules + more.join(''))).toMatch(/^p\.yaml:2:3: rules times their examples are \d+ characters/);
  });
});

describe('a file', () => {
  let folder: string;
  beforeEach(() => {
    folder = temporaryDir('policy');
  });
  afterEach(() => rmSync(folder, { recursive: true }));
  const file = (name: string, text = '') => {
    writeFileSync(join(folder, name), text, { mode: 0o600 });
    return join(folder, name);
  };
  const said = (path: string) => problemsOf(() => loadPolicy(path)).join('\n');

  test('a file that others can write is refused, and so is a missing one', () => {
    chmodSync(file('p.yaml'), 0o666);
    expect(said(join(folder, 'p.yaml'))).toMatch(/chmod go-w/);
    expect(said(join(folder, 'none'))).toMatch(/no built-in policy \(floor, default, careful, .*\) has that name/);
    expect(said('none')).toMatch(
      /^policy none: no built-in policy \(floor, default, .*\) has that name; to name a file, write \.\/none$/,
    );
  });
  test.skipIf(process.getuid?.() !== 0)('a file of another user is refused (needs root to make one)', () => {
    chownSync(file('p.yaml'), 4242, 4242);
    expect(said(join(folder, 'p.yaml'))).toMatch(/belongs to user 4242/);
  });
  test.each(['777', '1777', '770'])('a file in a directory of mode %s, which others can write, is refused', (octal) => {
    const mode = Number.parseInt(octal, 8);
    mkdirSync(join(folder, 'shared'));
    const path = file('shared/p.yaml', 'version: 1\n');
    expect(said(path)).toBe('');
    chmodSync(join(folder, 'shared'), mode);
    // Root's sticky directory is the exception; only root can make one for a test.
    if (mode === 0o1777 && process.getuid?.() === 0) expect(said(path)).toBe('');
    else expect(said(path)).toMatch(new RegExp(`others may write the directory ${join(folder, 'shared')}`));
    expect(said(path)).not.toMatch(/chmod/);
  });
  test('below a directory that others can write, or behind a link in one, is refused', () => {
    const open = mkdtempSync('/tmp/ringfence-open-');
    try {
      chmodSync(open, 0o755);
      mkdirSync(join(open, 'shared/own'), { recursive: true });
      mkdirSync(join(open, 'elsewhere'));
      const path = join(open, 'shared/own/p.yaml');
      writeFileSync(path, 'version: 1\n', { mode: 0o600 });
      writeFileSync(join(open, 'elsewhere/p.yaml'), 'version: 1\n', { mode: 0o600 });
      symlinkSync('../elsewhere', join(open, 'shared/link'));
      symlinkSync('shared/link', join(open, 'link'));
      expect([said(path), said(join(open, 'link/p.yaml'))]).toEqual(['', '']);
      chmodSync(join(open, 'shared'), 0o777);
      const why = `others may write the directory ${join(open, 'shared')}`;
      expect(said(path)).toContain(why);
      expect(said(join(open, 'link/p.yaml'))).toContain(why);
      expect(said(join(open, 'elsewhere/p.yaml'))).toBe('');
      // Nobody else can reach the open directory.
      chmodSync(open, 0o700);
      expect(said(path)).toBe('');
    } finally {
      rmSync(open, { recursive: true });
    }
  });
  test.skipIf(process.getuid?.() !== 0)(
    "a file in a sticky directory of root is taken if it is the owner's (needs root)",
    () => {
      const sticky = join(folder, 'sticky');
      mkdirSync(sticky);
      const path = file('sticky/p.yaml', 'version: 1\n');
      chmodSync(sticky, 0o1777);
      expect(said(path)).toBe('');
      chownSync(sticky, 4242, 4242);
      expect(said(path)).toMatch(/belongs to user 4242/);
    },
  );
  test('a link, a folder and a file that is too large are refused', () => {
    symlinkSync(file('p.yaml'), join(folder, 'link.yaml'));
    expect(said(join(folder, 'link.yaml'))).toMatch(/is a symbolic link/);
    expect(said(folder)).toMatch(/not a regular file/);
    expect(said(file('big.yaml', '#'.repeat(256 * 1024 + 1)))).toMatch(/more than 262144 bytes/);
  });
  test('extends one beside it, wherever it is loaded from, and both are watched', () => {
    mkdirSync(join(folder, 'sub'));
    file('base.yaml', 'tiers: { execute: { decision: deny } }\nopen: [tiers.execute]\n');
    const child = file('sub/child.yaml', 'extends: ../base.yaml\ntiers: { write: { decision: ask } }\n');
    const { policy, files } = readPolicy(child);
    expect(policy.tiers).toMatchObject({
      execute: { decision: 'deny', source: `${join(folder, 'base.yaml')}:1` },
      write: { decision: 'ask', source: `${child}:2` },
    });
    expect(files.toSorted()).toEqual([join(folder, 'base.yaml'), child]);
  });
  test('a parent that others can write is refused at the place that extends it', () => {
    chmodSync(file('base.yaml'), 0o620);
    const child = file('child.yaml', 'version: 1\nextends: base.yaml\n');
    expect(said(child)).toBe(
      `${child}:2:10: extends: others may write ${join(folder, 'base.yaml')}; run: chmod go-w ${join(folder, 'base.yaml')}`,
    );
  });
  test('a policy with a bad parent is refused with the problems of the parent, and both files are known', () => {
    file('base.yaml', 'network: {}\n');
    const child = file('child.yaml', 'extends: base.yaml\n');
    expect(said(child)).toBe(`${join(folder, 'base.yaml')}:1:1: network is not supported yet`);
    let files: readonly string[] = [];
    try {
      loadPolicy(child);
    } catch (error) {
      files = (error as PolicyError).files;
    }
    expect(files).toEqual([child, join(folder, 'base.yaml')]);
  });
  test('a file that extends itself through others is refused with the circle', () => {
    file('a.yaml', 'extends: b.yaml\n');
    file('b.yaml', 'extends: c.yaml\n');
    file('c.yaml', 'extends: b.yaml\n');
    const way = ['b', 'c', 'b'].map((it) => join(folder, `${it}.yaml`)).join(' → ');
    expect(said(join(folder, 'a.yaml'))).toBe(
      `${join(folder, 'c.yaml')}:1:10: extends: these files extend each other in a circle: ${way}`,
    );
  });
  test('a file is taken at the end of a chain of 8, not of 9', () => {
    for (let i = 1; i < 9; i++) file(`${i}.yaml`, `extends: ${i + 1}.yaml\n`);
    file('9.yaml', 'version: 1');
    expect(said(join(folder, '2.yaml'))).toBe('');
    expect(said(join(folder, '1.yaml'))).toMatch(
      /8\.yaml:1:10: extends: a chain of `extends` may have at most 8 files$/,
    );
  });
  test('a file can extend every built-in policy by its name', () => {
    for (const name of BUILT_IN.keys()) expect(said(file('p.yaml', `extends: ${name}\n`))).toBe('');
  });
});
