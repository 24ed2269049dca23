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
  test('the policy has examples that hold', () => {
    expect(problems).toEqual([]);
    expect(outcomes.length).toBeGreaterThan(0);
  });
  test('the policy has examples for each rule of its own', () => {
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

const NAMES = ['default', 'careful', 'strict', 'unattended', 'read-only', 'plan', 'subagent'] as const;

/** The decisions of each built-in policy, in the order of NAMES, on the same calls. */
const ROWS: [example: string, decisions: string][] = [
  ['file_read {"path": "README.md"}', 'allow allow allow allow allow allow allow'],
  ['file_read {"path": ".env"}', 'deny deny deny deny deny deny deny'],
  ['file_write {"path": "a", "content": ""}', 'allow allow ask allow deny deny ask'],
  ['file_delete {"path": "a"}', 'allow ask ask allow deny deny ask'],
  ['file_write {"path": ".git/hooks/x", "content": ""}', 'deny deny deny deny deny deny deny'],
  ['git_commit {"message": "x"}', 'allow ask ask allow deny deny ask'],
  ['web_fetch {"url": "https://example.org"}', 'ask ask ask deny deny deny deny'],
  ['ls -la && grep -c x a | head -3', 'allow allow ask allow deny deny deny'],
  ['npm test', 'allow ask ask allow deny deny deny'],
  ['git status', 'allow ask ask allow deny deny deny'],
  ['cat .env', 'allow allow ask allow deny deny deny'],
  ['rm -rf build', 'allow ask ask allow deny deny deny'],
  ['eval "$(direnv export bash)"; go test ./...', 'allow ask ask allow deny deny deny'],
  ['git push origin x', 'ask ask ask deny deny deny deny'],
  ['rm -rf /', 'deny deny deny deny deny deny deny'],
  ['todo_write {"todos": []}', 'allow allow ask allow deny allow ask'],
];
test.each(ROWS)('the built-in policies decide as the table says: %s', (example, decisions) => {
  expect(NAMES.map((it) => decision(it, example)).join(' ')).toBe(decisions);
});

/** Commands that look at first sight as if they only looked. */
test.each([
  ...['echo a > b', 'cat a | tee b', 'ls; rm a', 'ls && ./ls', 'PATH=. ls', 'echo $(rm a)', 'eval ls', 'xargs rm'],
  ...['ls & rm a', 'command rm a', 'env rm a', 'cat <(rm a)', 'bash -c ls', 'alias ls=rm', 'find . -delete'],
  ...['sort -o b a', 'git log', 'tail -f a', 'lsof', 'pip list'],
])('careful asks about what may do more than look: %s', (command) => {
  expect(decision('careful', command)).toBe('ask');
});

test.each([
  ...['git push', 'cd x && git push', 'env A=b git push', "bash -c 'git push'", 'xargs git push', 'git -C x push'],
  ...[
    'git -c a.b=c --no-pager push origin x',
    'timeout 5 git push',
    'npm publish',
    'npm --prefix x publish',
    'npm unpublish x',
  ],
  ...[
    'yarn npm publish',
    'pnpm publish',
    'cargo publish',
    'docker push a/b',
    'podman image push x',
    'twine upload d/*',
  ],
  ...[
    'gh pr create --title x',
    'gh -R a/b pr merge 1 --squash',
    'gh release create v1',
    'gem push x.gem',
    'helm push a b',
  ],
])('default asks before a command publishes: %s', (command) => {
  expect(decision('default', command)).toBe('ask');
});

test.each([
  ...['git stash push', 'git log -- push', 'git commit -m "push it"', 'npm run build', 'npm view x', 'docker ps'],
  ...['gh pr list', 'gh run view 1', 'cargo build', 'git submodule add x', 'git pull', 'gh auth status'],
])('default runs a command that publishes nothing unasked: %s', (command) => {
  expect(decision('default', command)).toBe('allow');
});

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
