import { defaultLimits } from '../../src/base/limits.ts';
import { compare } from '../../src/cli/backtest.ts';
import { toQuestion } from '../../src/pipeline/permission.ts';
import { decide } from '../../src/policy/decide.ts';
import { BUILT_IN, defaultPolicy } from '../../src/policy/load.ts';
import { pathDecision, pathRulesOf } from '../../src/policy/paths.ts';
import type { Policy } from '../../src/policy/schema.ts';
import { createProgramResolver } from '../../src/policy/shell/programs.ts';
import type { AuditRecord } from '../../src/store/audit/log.ts';
import { builtinTools } from '../../src/tools/builtin.ts';
import type { Tool } from '../../src/tools/tool.ts';
import { effectOf, lineOf, policyOf, ruleOf } from '../../test/support/policy.ts';
import { type Context, defineBench } from '../bench.ts';
import { manyRules } from '../floors/rules.ts';
import { inTurns } from '../measure.ts';

const WORKSPACE = '/home/me/work';
const own = [
  ruleOf('allow', { command: [['ls', 'wc']] }),
  ruleOf('allow', { command: ['git', ['status', 'log']] }),
  ruleOf('allow', { path: 'docs/**' }),
];
const file = { ...effectOf('read', 'src/policy/decide.ts'), workspace: WORKSPACE };
const line = {
  ...lineOf(['git log --oneline', 'wc -l src/a.ts', 'ls docs'], {
    mentions: ['src/a.ts', 'docs'],
    redirects: [{ kind: 'write', target: 'docs/out.txt' }],
  }),
  workspace: WORKSPACE,
};

/** Makes path rules as people write them. */
function pathRules() {
  const names = '.env* *.pem *.key id_rsa .netrc .npmrc *secret* *credential* password* .pgpass'.split(' ');
  const folders = ['.ssh/**', '.aws/**', '.gnupg/**', '.kube/**', '.git/hooks/**'];
  const places = ['config/prod/*.yaml', 'infra/**', '~/.ssh/**', '/etc/**', 'a/**/b'];
  const paths = [...[...names, ...folders].map((it) => `**/${it}`), ...places];
  return pathRulesOf(policyOf(paths.map((it) => ruleOf('deny', { path: it }))), {
    principal: 'local',
    session: 's',
    home: '/home/me',
    workspace: WORKSPACE,
  });
}

/** Makes and decides a question, like the stage does. */
function permission(tool: string, input: object): () => unknown {
  const named = (builtinTools as unknown as Record<string, Tool>)[tool] as Tool;
  const parsed = named.input.parse(input);
  const parts = { home: '/home/person', limits: defaultLimits, resolve: createProgramResolver() };
  const asker = {
    principal: 'uid:1000',
    session: 's',
    sawUntrusted: false,
    workspace: process.cwd(),
    root: process.cwd(),
  };
  return () => decide(defaultPolicy, toQuestion(named, parsed, { asker, parts }));
}

/** A back-test of recorded calls, a third of them commands, as a log gives them. */
function backTest(calls: number): () => void {
  const commands = ['git status', 'npm test', 'cat package.json | head -n 3', 'rm -rf build && mkdir build'];
  const entry = { kind: 'outcome', sessionId: 's', principal: 'uid:1000', callId: 'c', tool: 'file_read' } as const;
  const recorded = Array.from({ length: calls }, (_, i) => {
    const call =
      i % 3 === 0
        ? { tool: 'terminal_execute', input: { command: commands[i % commands.length] } }
        : { tool: i % 3 === 1 ? 'file_read' : 'file_list', input: { path: `src/part-${i}/file.ts` } };
    return { ...entry, ...call, seq: i, at: '2026-01-01T00:00:00.000Z', previousHash: '', hash: '' } as AuditRecord;
  });
  const strict = BUILT_IN.get('strict') as Policy;
  return () => {
    const { differences } = compare(recorded, { old: defaultPolicy, new: strict }, '/home/person');
    if (differences.length === 0) throw new Error('the strict policy decides as the default one');
  };
}

async function run(bench: Context): Promise<void> {
  const bare = policyOf([]);
  const policy = policyOf([...manyRules(497), ...own], { tiers: { execute: 'ask' } });
  const turns = { rounds: bench.size(3, 10), times: bench.size(500, 5000) };
  const decided = await inTurns(
    {
      'a file call, no rules': () => decide(bare, file),
      'a file call, 500 rules': () => decide(policy, file),
      'a line of 3 commands, no rules': () => decide(bare, line),
      'a line of 3 commands, 500 rules': () => decide(policy, line),
    },
    turns,
  );
  bench.times(decided, {
    over: {
      'a file call, 500 rules': 'a file call, no rules',
      'a line of 3 commands, 500 rules': 'a line of 3 commands, no rules',
    },
    goals: { 'a line of 3 commands, 500 rules': { most: 0.05 } },
  });
  bench.times(
    await inTurns(
      {
        'permission of a file_read, default policy': permission('file_read', { path: 'src/daemon/daemon.ts' }),
        'permission of a command line, programs looked up': permission('terminal_execute', {
          command: 'git log -3 | head -n 5 > out.txt',
        }),
      },
      turns,
    ),
  );
  const rules = pathRules();
  const paths = bench.size(1000, 20_000);
  const targets = Array.from({ length: paths }, (_, at) => `packages/part-${at % 97}/src/some/folder/file-${at}.ts`);
  const judged = () => {
    for (const it of targets) pathDecision(rules, 'read', it, '/home/me');
  };
  const many = await inTurns({ 'paths judged by 20 patterns': judged }, { rounds: bench.size(2, 10), times: 1 });
  bench.rates(many, { amount: paths, unit: '/s' });
  const recorded = bench.size(1000, 10_000);
  const name = `back-test of ${recorded} recorded calls`;
  const tested = await inTurns(
    { [name]: backTest(recorded) },
    { rounds: bench.size(1, 5), times: 1, warmRounds: bench.size(0, 1) },
  );
  bench.times(tested, { goals: { [name]: { most: 1000 } } });
}

export default defineBench({
  title: 'Decisions',
  question: 'What does a decision of the policy cost?',
  run,
});
