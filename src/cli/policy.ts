/**
 * `ringfence policy check|test|diff`: works on files without a daemon; they need not be in force. Each returns the exit code: 0, or 2 if a
 * file is refused.
 */
import { decidedDifferently, differences } from '../policy/compare.ts';
import { type ExaminedPolicy, examinePolicy, PolicyError, readPolicy } from '../policy/load.ts';
import type { Policy } from '../policy/schema.ts';
import { effectsOfBuiltin as effectsOf } from '../tools/registry.ts';
import { EXIT, harmless, type JsonFlag, print, printJson, say } from './output.ts';

/** Checks a file or a built-in policy; prints every problem with its position on stderr. */
export async function policyCheck(nameOrPath: string, { json }: JsonFlag = {}): Promise<number> {
  return orRefused(json, () => {
    const { policy, files } = readPolicy(nameOrPath, { effectsOf });
    if (json) return printJson({ ok: true, rules: policy.rules.length, version: policy.version, files });
    const from = files.length > 1 ? `, out of ${files.length} files` : '';
    print(harmless(`${nameOrPath}: ${policy.rules.length} rules${from}, version ${policy.version}`));
  });
}

/** Prints each example of a file's own rules and its outcome. */
export async function policyTest(nameOrPath: string, { json }: JsonFlag = {}): Promise<number> {
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
    // Problems of examples are printed above already, unless no example was tried.
    const others = problems.filter((it) => !outcomes.some(({ at, problem }) => problem && it.startsWith(`${at}: `)));
    if (others.length > 0) say(harmless(others.join('\n')));
    return EXIT.USAGE;
  });
}

/** Prints the differences of two policies, and the examples of both that they decide differently. */
export async function policyDiff(old: string, by: string, { json }: JsonFlag = {}): Promise<number> {
  return orRefused(json, () => {
    const [before, after]: Policy[] = [old, by].map((it) => readPolicy(it, { effectsOf }).policy);
    const said = differences(before as Policy, after as Policy);
    const decided = decidedDifferently(before as Policy, after as Policy, effectsOf);
    if (json) return printJson({ differences: said, decidedDifferently: decided });
    for (const it of said) print(harmless(`${it.what}: ${it.old ?? 'not set'} → ${it.new ?? 'not set'}`));
    for (const it of decided) print(harmless(`\`${it.example}\`: ${it.old} → ${it.new}`));
    print(`${said.length} differences, ${decided.length} examples decided differently`);
  });
}

function lineOf({ at, rule, kind, text, problem }: ExaminedPolicy['outcomes'][number]): string {
  const wanted = kind === 'match' ? 'matches' : 'does not match';
  return `${at}: ${rule}: \`${text}\`: ${problem ?? wanted}`;
}

/** Gives the exit code of an action on policies, and says why one is refused. */
export async function orRefused(
  json: boolean | undefined,
  action: () => number | void | Promise<void>,
): Promise<number> {
  try {
    return (await action()) ?? EXIT.OK;
  } catch (error) {
    if (!(error instanceof PolicyError)) throw error;
    if (json) printJson({ ok: false, problems: error.problems });
    say(`not valid:\n${harmless(error.message)}`);
    return EXIT.USAGE;
  }
}
