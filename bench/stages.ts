// What do permission, audit and redaction add to a call? Each alone, on a file call and on a command line, beside the call
// that they are part of (`npm run bench`). `--small` for the tests.
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { compare } from '../src/cli/backtest.ts';
import { defaultLimits } from '../src/limits.ts';
import { toQuestion } from '../src/pipeline/permission.ts';
import { decide } from '../src/policy/decide.ts';
import { BUILT_IN, defaultPolicy } from '../src/policy/load.ts';
import { createProgramResolver } from '../src/policy/programs.ts';
import type { Policy } from '../src/policy/schema.ts';
import { systemPowers } from '../src/powers.ts';
import { redactValue } from '../src/redact.ts';
import { AuditLog, type AuditRecord } from '../src/store/audit-log.ts';
import { builtinTools } from '../src/tools/builtin.ts';
import type { Tool } from '../src/tools/tool.ts';
import { temporaryDir } from '../test/support/daemon.ts';

const rounds = process.argv.includes('--small') ? 200 : 20_000;
const powers = systemPowers();
const folder = temporaryDir('stages');
const workspace = process.cwd();
const parts = { home: '/home/person', resolve: createProgramResolver() };
const asker = { principal: 'uid:1000', session: 's', workspace, root: workspace };

function p50Us(run: () => unknown): number {
  const took: number[] = [];
  for (let i = 0; i < rounds; i++) {
    const from = performance.now();
    run();
    took.push(performance.now() - from);
  }
  return (took.sort((a, b) => a - b)[Math.floor(rounds / 2)] as number) * 1000;
}

const tools = builtinTools as unknown as Record<string, Tool>;
const permission = (tool: string, input: object) => {
  const named = tools[tool] as Tool;
  const parsed = named.input.parse(input);
  return () => decide(defaultPolicy, toQuestion(named, parsed, { asker, parts }));
};
const redact = (value: unknown) => redactValue(value, { byKey: true });
const log = new AuditLog(join(folder, 'audit.db'), defaultLimits, powers, { redact });
const entry = { kind: 'outcome', sessionId: 's', principal: 'uid:1000', callId: 'c', tool: 'file_read' } as const;
const effects = [{ kind: 'read', target: 'src/daemon.ts' }] as const;
const audited = () =>
  log.append({ ...entry, effects, input: { path: 'src/daemon.ts' }, decision: 'allow', durationMs: 1 });
const text = 'const x = 1; // some source of a project, as files are\n'.repeat(75).slice(0, 4096);

const figures = {
  'permission, file_read': p50Us(permission('file_read', { path: 'src/daemon.ts' })),
  'permission, a command': p50Us(permission('terminal_execute', { command: 'git log -3 | head -n 5 > out.txt' })),
  'audit, an entry of a batch': p50Us(audited),
  'audit, an entry on disk': p50Us(() => {
    audited();
    log.flush();
  }),
  'redaction, 4 KiB of source': p50Us(() => redactValue({ content: text, lines: 75 })),
};
/** Recorded calls, a third of them commands, as a log gives them. */
const RECORDED = 10_000;
const commands = ['git status', 'npm test', 'cat package.json | head -n 3', 'rm -rf build && mkdir build'];
const recorded = Array.from({ length: RECORDED }, (_, i) => {
  const call =
    i % 3 === 0
      ? { tool: 'terminal_execute', input: { command: commands[i % commands.length] } }
      : { tool: i % 3 === 1 ? 'file_read' : 'file_list', input: { path: `src/part-${i}/file.ts` } };
  return { ...entry, ...call, seq: i, at: '2026-01-01T00:00:00.000Z', previousHash: '', hash: '' } as AuditRecord;
});
const strict = BUILT_IN.get('strict') as Policy;
const from = performance.now();
const { calls, differences } = compare(recorded, { old: defaultPolicy, new: strict }, parts.home);
const backtestMs = performance.now() - from;
log[Symbol.dispose]();
rmSync(folder, { recursive: true });
for (const [name, us] of Object.entries(figures)) console.log(`${name.padEnd(32)} p50 ${us.toFixed(1)} µs`);
console.log(`back-test of ${calls} calls, ${differences.length} decided differently: ${backtestMs.toFixed(0)} ms`);
