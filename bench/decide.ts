// What does one decision cost under 500 rules, and one path under 20 patterns? Beside the floor: a tier alone, without rules.
// `--small` for the tests. The last line is JSON.
import { cpus } from 'node:os';
import { decide } from '../src/policy/decide.ts';
import { pathDecision, pathRulesOf } from '../src/policy/paths.ts';
import type { Policy, Rule } from '../src/policy/schema.ts';
import { effectOf, lineOf, policyOf, ruleOf } from '../test/support/policy.ts';

const small = process.argv.includes('--small');
const rounds = small ? 2_000 : 50_000;
const names = small ? 5_000 : 100_000;

/** Paths, commands and tools as people write them: plain names, endings, beginnings, depths, homes, exceptions. */
function mixed(count: number): Rule[] {
  const shapes: ((at: number) => Rule)[] = [
    (at) => ruleOf('deny', { read: [`**/secret-${at}.pem`, `~/.config/app-${at}/**`] }),
    (at) => ruleOf('ask', { write: `src/module-${at}/**` }),
    (at) => ruleOf('allow', { command: ['git', [`status-${at}`, `log-${at}`]] }),
    (at) => ruleOf('deny', { command: [`program-${at}`] }),
    (at) => ruleOf('ask', { tool: `mcp_${at}_*`, path: `data/${at}/*.csv` }),
    (at) => ruleOf('deny', { all: [{ tool: `file_${at}` }, { not: { path: 'docs/**' } }] }),
    (at) => ruleOf('deny', { path: `**/.env.stage-${at}*`, when: { principal: `agent-${at}` } }),
    (at) => ruleOf('allow', { host: `*.example-${at}.org` }),
    (at) => ruleOf('deny', { any: [{ read: `/etc/app-${at}/**` }, { command: ['cat', `/etc/app-${at}`] }] }),
    (at) => ruleOf('ask', { path: `**/*.kind${at}`, not: { principal: 'ci' } }),
  ];
  return Array.from({ length: count }, (_, at) => (shapes[at % shapes.length] as (at: number) => Rule)(at));
}

const own = [
  ruleOf('allow', { command: [['ls', 'wc']] }),
  ruleOf('allow', { command: ['git', ['status', 'log']] }),
  ruleOf('allow', { path: 'docs/**' }),
];
const policy = policyOf([...mixed(497), ...own], { tiers: { execute: 'ask' } });
const bare = policyOf([]);
const file = { ...effectOf('read', 'src/policy/decide.ts'), workspace: '/home/me/work' };
const line = {
  ...lineOf(['git log --oneline', 'wc -l src/a.ts', 'ls docs'], {
    mentions: ['src/a.ts', 'docs'],
    redirects: [{ kind: 'write', target: 'docs/out.txt' }],
  }),
  workspace: '/home/me/work',
};

/** Microseconds of each round, sorted. */
function measure(run: () => unknown): { p50Us: number; p99Us: number } {
  for (let at = 0; at < rounds / 2; at++) run();
  const took = Float64Array.from({ length: rounds }, () => {
    const from = process.hrtime.bigint();
    run();
    return Number(process.hrtime.bigint() - from) / 1000;
  }).sort();
  const at = (share: number) => Number((took[Math.floor(rounds * share)] as number).toFixed(2));
  return { p50Us: at(0.5), p99Us: at(0.99) };
}

const cases: [string, Policy, Parameters<typeof decide>[1]][] = [
  ['file call, no rules (floor)', bare, file],
  ['file call, 500 rules', policy, file],
  ['line of 3 commands, no rules (floor)', bare, line],
  ['line of 3 commands, 500 rules', policy, line],
];
const figures = cases.map(([name, under, question]) => ({ name, ...measure(() => decide(under, question)) }));

const patterns = [
  '.env*',
  '*.pem',
  '*.key',
  'id_rsa',
  '.netrc',
  '.npmrc',
  '*secret*',
  '*credential*',
  'password*',
  '.pgpass',
];
const deep = ['.ssh/**', '.aws/**', '.gnupg/**', '.kube/**', '.git/hooks/**'];
const rules = pathRulesOf(
  policyOf([
    ...patterns.map((it) => ruleOf('deny', { path: `**/${it}` })),
    ...deep.map((it) => ruleOf('deny', { path: `**/${it}` })),
    ...['config/prod/*.yaml', 'infra/**', '~/.ssh/**', '/etc/**', 'a/**/b'].map((it) => ruleOf('deny', { path: it })),
  ]),
  { principal: 'local', session: 's', home: '/home/me', workspace: '/home/me/work' },
);
const targets = Array.from({ length: names }, (_, at) => `packages/part-${at % 97}/src/some/folder/file-${at}.ts`);
for (const it of targets) pathDecision(rules, 'read', it, '/home/me');
const from = process.hrtime.bigint();
for (const it of targets) pathDecision(rules, 'read', it, '/home/me');
const pathUs = Number((Number(process.hrtime.bigint() - from) / 1000 / names).toFixed(3));

console.log(`Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model}\n`);
for (const { name, p50Us, p99Us } of figures) console.log(`${name.padEnd(40)} p50 ${p50Us} µs  p99 ${p99Us} µs`);
console.log(`${`one of ${names} paths, 20 patterns`.padEnd(40)} mean ${pathUs} µs`);
console.log(JSON.stringify({ bench: 'decide', node: process.version, figures, pathUs }));
