/** `ringfence policy check|test|diff`: without a daemon, on files that need not be in force. Each gives an exit code: 0, or 2 when a file is not taken. */
import { decidedDifferently, differences } from '../policy/compare.ts';
import { type ExaminedPolicy, examinePolicy, PolicyError, readPolicy } from '../policy/load.ts';
import type { Policy } from '../policy/schema.ts';
import { effectsOfBuiltin as effectsOf } from '../tools/registry.ts';
import { EXIT, harmless, print, printJson, say } from './output.ts';

interface Flags {
  readonly json?: boolean;
}

/** Whether a file, or a built-in policy, is taken; every problem with its place on stderr. */
export async function policyCheck(nameOrPath: string, { json }: Flags = {}): Promise<number> {
  return orRefused(json, () => {
    const { policy, files } = readPolicy(nameOrPath, { effectsOf });
    if (json) {
      printJson({ ok: true, rules: policy.rules.length, version: policy.version, files });
      return EXIT.OK;
    }
    const from = files.length > 1 ? `, out of ${files.length} files` : '';
    print(harmless(`${nameOrPath}: ${policy.rules.length} rules${from}, version ${policy.version}`));
    return EXIT.OK;
  });
}

/** Each example of a file's own rules and how it came out. */
export async function policyTest(nameOrPath: string, { json }: Flags = {}): Promise<number> {
  return orRefused(json, () => {
    const { outcomes, problems } = examinePolicy(nameOrPath, { effectsOf });
    if (json) {
      printJson({ ok: problems.length === 0, outcomes, problems });
      return problems.length === 0 ? EXIT.OK : EXIT.USAGE;
    }
    for (const it of outcomes) print(harmless(lineOf(it)));
    const failed = outcomes.filter((it) => it.problem !== undefined).length;
    print(`${outcomes.length} examples, ${failed} failed`);
    if (problems.length === 0) return EXIT.OK;
    // Those of examples stand above already, unless none was tried.
    const others = problems.filter((it) => !outcomes.some(({ at, problem }) => problem && it.startsWith(`${at}: `)));
    if (others.length > 0) say(harmless(others.join('\n')));
    return EXIT.USAGE;
  });
}

/** What the new one says differently, and which examples of both it decides differently. */
export async function policyDiff(old: string, by: string, { json }: Flags = {}): Promise<number> {
  return orRefused(json, () => {
    const [before, after]: Policy[] = [old, by].map((it) => readPolicy(it, { effectsOf }).policy);
    const said = differences(before as Policy, after as Policy);
    const decided = decidedDifferently(before as Policy, after as Policy, effectsOf);
    if (json) {
      printJson({ differences: said, decidedDifferently: decided });
      return EXIT.OK;
    }
    for (const it of said) print(harmless(`${it.what}: ${it.old ?? 'not said'} → ${it.new ?? 'not said'}`));
    for (const it of decided) print(harmless(`\`${it.example}\`: ${it.old} → ${it.new}`));
    print(`${said.length} differences, ${decided.length} examples decided differently`);
    return EXIT.OK;
  });
}

function lineOf({ at, rule, kind, text, problem }: ExaminedPolicy['outcomes'][number]): string {
  const wanted = kind === 'match' ? 'matches' : 'does not match';
  return `${at}: ${rule}: \`${text}\`: ${problem ?? wanted}`;
}

function orRefused(json: boolean | undefined, action: () => number): number {
  try {
    return action();
  } catch (error) {
    if (!(error instanceof PolicyError)) throw error;
    if (json) printJson({ ok: false, problems: error.message.split('\n') });
    say(`not taken\n${harmless(error.message)}`);
    return EXIT.USAGE;
  }
}
