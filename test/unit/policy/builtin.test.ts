import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { decide } from '../../../src/policy/decide.ts';
import { BUILT_IN, defaultPolicy, examinePolicy, parsePolicy } from '../../../src/policy/load.ts';
import { ruleMatches } from '../../../src/policy/match.ts';
import { toQuestion } from '../../../src/policy/rule-examples.ts';
import type { Policy, Rule } from '../../../src/policy/schema.ts';
import { effectsOfBuiltin as effectsOf } from '../../../src/tools/registry.ts';

const root = fileURLToPath(new URL('../../..', import.meta.url));
const decision = (policy: string, example: string) =>
  decide(BUILT_IN.get(policy) as Policy, toQuestion(example, effectsOf)).decision;
const ruleOf = (id: string) => defaultPolicy.rules.find((it) => it.id === id) as Rule;

test('policies/ holds the built-in policies and nothing else that is one', () => {
  const files = readdirSync(join(root, 'policies')).filter((it) => it.endsWith('.yaml'));
  expect(files.toSorted()).toEqual([...BUILT_IN.keys()].map((it) => `${it}.yaml`).toSorted());
});

test('policies/policy.schema.json is what `npm run gen` writes', () => {
  const script = join(root, 'script/gen-policy-schema.ts');
  const generated = execFileSync(process.execPath, [script, '--print'], { encoding: 'utf8' });
  expect(readFileSync(join(root, 'policies/policy.schema.json'), 'utf8')).toBe(generated);
});

describe.each([...BUILT_IN.keys()])('%s', (name) => {
  const { outcomes, problems, policy } = examinePolicy(name, { effectsOf });
  test('has examples that hold', () => {
    expect(problems).toEqual([]);
    expect(outcomes.length).toBeGreaterThan(0);
  });
  test('has examples for each rule of its own', () => {
    const own = policy.rules.filter(({ source }) => source.startsWith(`built-in:${name}:`));
    expect(own.filter((it) => (it.examples?.match?.length ?? 0) === 0).map(({ id }) => id)).toEqual([]);
  });
  test('names its schema in its first line', () => {
    const text = readFileSync(join(root, `policies/${name}.yaml`), 'utf8');
    expect(text.split('\n')[0]).toBe('# yaml-language-server: $schema=./policy.schema.json');
  });
});

test('the policies that the documentation and examples/ show are taken', () => {
  const shown = /```yaml\n([\s\S]*?)```/.exec(readFileSync(join(root, 'docs/policy.md'), 'utf8'))?.[1] as string;
  expect(parsePolicy(shown, 'docs/policy.md', { effectsOf }).rules.length).toBeGreaterThan(defaultPolicy.rules.length);
  for (const name of readdirSync(join(root, 'examples')).filter((it) => it.endsWith('.yaml')))
    expect(() => parsePolicy(readFileSync(join(root, 'examples', name), 'utf8'), name)).not.toThrow();
});

/** The decisions of each built-in policy on the same calls. */
const ROWS: [
  example: string,
  byDefault: string,
  strict: string,
  unattended: string,
  readOnly: string,
  plan: string,
  subagent: string,
][] = [
  ['file_read {"path": "README.md"}', 'allow', 'allow', 'allow', 'allow', 'allow', 'allow'],
  ['file_read {"path": ".env"}', 'deny', 'deny', 'deny', 'deny', 'deny', 'deny'],
  ['file_write {"path": "a", "content": ""}', 'allow', 'ask', 'allow', 'deny', 'deny', 'ask'],
  ['file_write {"path": ".git/hooks/x", "content": ""}', 'deny', 'deny', 'deny', 'deny', 'deny', 'deny'],
  ['file_write {"path": "bare/HEAD", "content": ""}', 'ask', 'ask', 'deny', 'deny', 'deny', 'ask'],
  ['git status', 'ask', 'ask', 'deny', 'deny', 'deny', 'deny'],
  ['grep -c x a | head -3 && ls', 'allow', 'ask', 'allow', 'deny', 'deny', 'deny'],
  ['sort a > b', 'ask', 'ask', 'deny', 'deny', 'deny', 'deny'],
  ['git status | head -3 && ls', 'ask', 'ask', 'deny', 'deny', 'deny', 'deny'],
  ['npm test', 'ask', 'ask', 'deny', 'deny', 'deny', 'deny'],
  ['rm -rf /', 'deny', 'deny', 'deny', 'deny', 'deny', 'deny'],
  ['todo_write {"todos": []}', 'allow', 'ask', 'allow', 'deny', 'allow', 'ask'],
];
test.each(ROWS)('%s', (example, ...wanted) => {
  expect(
    ['default', 'strict', 'unattended', 'read-only', 'plan', 'subagent'].map((it) => decision(it, example)),
  ).toEqual(wanted);
});

test.each([
  ...[
    'sort -o b a',
    'sort a -ob',
    'sort -uo b a',
    'sort --output b a',
    'sort $x',
    'sort *',
    'sort --compress-program=sh a',
    'sort -- a -o b c d',
  ],
  ...['uniq a b', 'uniq a $x', 'uniq *', 'uniq -c a b', 'uniq -- a b'],
  ...[
    'find . -exec sh {} +',
    'find . -name a -exec sh {} +',
    'find -delete',
    'find . -name a -delete',
    'find . $x',
    'find . -fls x',
    'find . -name "a" -o -delete',
    'find -empty -delete',
    'find . -empty -delete',
    'find -printf -name -delete',
    'find -D -name -delete',
    'find . -name a -empty -delete',
    'find . -name a -name b -empty -delete',
    'find . -empty -fprint -name a',
    "find $'\\x{2d}delete'",
    'find {1}/..,-delete}',
    'find .{1}{2..3},-delete}',
    'sort {1}a,-ob}',
    'uniq {1}a,b}',
  ],
  ...['find a b -delete', 'find . -type f -okdir sh \\;', 'find . -name a -name b -name c -delete'],
  ...[
    ...['git status', 'git log', 'git log --oneline -3', 'git diff --stat', 'git diff --name-only a b', 'git show'],
    ...['git rev-parse HEAD', 'git ls-files', 'git --version'],
    'git log --output=x',
    'git diff --ext-diff',
    'git -c a.b=c log',
    'git --exec-path=. log',
    'git diff a b c d --outp=x',
    'git diff $x',
    'git diff 1 2 3 4 5 6 --output=x',
    'git log 1 2 3 4 5 6 -p',
    'git log -p -2',
    'git log --stat -p',
    'git log -1 -Gkey',
    'git diff --cached',
    'git diff HEAD',
    'git diff --stat -p HEAD~3 HEAD',
    'git diff --stat --patch-w HEAD~3',
    'git status -vv',
    'tail -f a',
    'tail -qF a',
    'tail a b c d e -f',
    'tail --ret a',
  ],
  ...[
    'echo a > b',
    'cat a | tee b',
    'ls; rm a',
    'ls && ./ls',
    'PATH=. ls',
    'echo $(rm a)',
    'eval ls',
    'xargs rm',
    'ls & rm a',
    'command rm a',
    'env rm a',
  ],
  ...[
    'cat <(rm a)',
    'find . -name "$(rm a)"',
    'pip list --python ./x',
    'npm list --prefix x --script-shell=y',
    'lsof',
    'bash -c ls',
    'alias ls=rm',
  ],
])('default allows no more than it says: %s', (command) => {
  expect(decision('default', command)).not.toBe('allow');
});

test.each([
  'cat .env',
  'cat < .env',
  'head -c 9 config/.env.local',
  'cat ~/.ssh/id_rsa',
  'grep x server.PEM',
  'cat ./a/../.env',
  'diff a Secrets.txt',
  'cp .env x',
])('secrets are denied to commands as to tools: %s', (command) => expect(decision('default', command)).toBe('deny'));

/** An independent definition of what no-secrets means. */
function isSecret(path: string): boolean {
  const parts = path.toLowerCase().split('/');
  const last = parts.at(-1) as string;
  if (/\.env\.(example|sample|template)$/.test(path)) return false;
  const name = last.replace(/(~|\.bak|\.old|\.orig)$/, '');
  return (
    parts.some((it) => ['.ssh', '.aws', '.gnupg', '.kube', '.docker'].includes(it)) ||
    parts.some((it) => /^\.?(secrets|passwords|credentials|private[-_]?keys)$/.test(it)) ||
    parts.some((it) => /^\.(secret|password|credential|password-store)$/.test(it)) ||
    /private.*key/.test(name) ||
    ['.netrc', '.npmrc', '.pypirc', '.pgpass', '.git-credentials', '.htpasswd'].includes(name) ||
    ['id_rsa', 'id_dsa', 'id_ecdsa', 'id_ed25519'].includes(name) ||
    ['.pem', '.key', '.p12', '.pfx', '.jks', '.keystore', '.kdbx'].some((it) => name.endsWith(it)) ||
    ['secret', 'password', 'credential'].some((it) => name.includes(it)) ||
    /^\.env|\.env(\.|$)/.test(last)
  );
}

test('no-secrets holds for exactly the names that it means, in any case, outside of folders of code', () => {
  const part = fc.constantFrom(
    ...[
      '.env',
      '.Env.local',
      'env',
      '.ssh',
      '.AWS',
      '.netrc',
      '.npmrc',
      'id_rsa',
      'ID_ED25519',
      'id_rsa.pub',
      'id_rsa.bak',
      '.npmrc~',
      'x.key.old',
      'prod.env',
      'prod.env.local',
      '.env.example',
      'prod.env.sample',
      'x.environment',
      'x.pem',
      'x.KEY',
      'key',
      'x.key.txt',
    ],
    ...[
      'my-Secrets',
      'PASSWORDS.txt',
      'pass',
      'Credentials',
      'Passwords',
      'private_Keys',
      '.password-store',
      '.Secret',
      'password-reset.d',
      'cred',
      'src',
      'a b',
      'x.kdbx',
      '.docker',
      '.git-credentials',
      'node_modules2',
      '.ssh2',
      '.pem',
    ],
  );
  const rule = ruleOf('no-secrets');
  const matches = (path: string) =>
    ruleMatches(rule, { ...toQuestion('file_read {}'), effects: [{ kind: 'read', target: path }] });
  fc.assert(
    fc.property(fc.array(part, { minLength: 1, maxLength: 4 }), (parts) => {
      const path = parts.join('/');
      expect(matches(path)).toBe(isSecret(path));
      expect(matches(`node_modules/${path}`)).toBe(false);
    }),
    { numRuns: 1000 },
  );
});

describe('the rule on secrets', () => {
  test.each([
    ...['.env', '.env.local', '.ENV', 'a/b/.env', '.envrc', '.netrc', '.npmrc', '.pgpass', '.git-credentials'],
    ...['id_rsa', 'keys/ID_ED25519', 'server.pem', 'x.KEY', 'store.p12', 'a.kdbx', 'my-secret.txt', 'Passwords.csv'],
    ...['.ssh/config', 'home/.SSH/known_hosts', '.aws/config', '.kube/cache/x', '.docker/config.json', '.gnupg/a'],
    'db-credentials.json',
  ])('holds for %s', (path) => {
    expect(decision('default', `file_read ${JSON.stringify({ path })}`)).toBe('deny');
  });

  test.each([
    ...['environment.ts', 'env', 'src/.envelope/a', 'id_rsa.pub', 'my_id_rsa', 'pem', 'x.pem.md', 'keyboard.ts'],
    ...['monkey', 'ssh/config', 'a.ssh/config', 'npmrc', '.npmrc.md', 'docs/passport.md'],
  ])('does not hold for %s', (path) => {
    expect(decision('default', `file_read ${JSON.stringify({ path })}`)).toBe('allow');
  });
});
