import { isInside } from '../base/paths.ts';
import type { Client } from '../client/client.ts';
import { findUserDirs } from '../daemon/user-dirs.ts';
import { readInput } from './call/input.ts';
import { type CliCaller, connect } from './connect.ts';
import { EXIT, harmless, type JsonFlag, OperatorError, print, printJson, say } from './output.ts';
import { paint } from './screen/table.ts';

/**
 * `ringfence policy explain TOOL [JSON | key=value …]`. Returns 0 if the call would be allowed or asked about, 4 if it is denied. In a
 * folder outside all workspaces, decides as in the daemon's first one.
 */
export async function policyExplain(
  tool: string,
  words: readonly string[],
  flags: { readonly json?: boolean; readonly sawUntrusted?: boolean; readonly write?: boolean },
  caller: CliCaller,
): Promise<number> {
  await using client = await connect({ ...caller, anywhere: true });
  const { session } = await client.hello;
  if (caller.flags.workspace === undefined && !isInside(session.workspace, caller.cwd))
    say(harmless(`explained for ${session.workspace}, because ${caller.cwd} is not a workspace of the daemon`));
  const input = await readInput(words, { client, tool, cwd: caller.cwd });
  const it = await client.request('policy.explain', {
    tool,
    input,
    sawUntrusted: flags.sawUntrusted,
  });
  if (flags.json) printJson(it);
  else {
    print(paint(['bold', STYLES[it.decision]], it.decision));
    for (const { kind, target } of it.effects) print(harmless(`  ${kind.padEnd(7)} ${target}`));
    for (const { id, decision, reason, source } of it.rules)
      print(harmless(`  ${decision.padEnd(5)} by ${id} (${source}): ${reason}`));
    if (it.doors && it.decision !== 'deny') print('  it runs in its sandbox');
    for (const { target, decision } of it.doors ?? [])
      print(harmless(`  ${decision.padEnd(5)} when it connects to ${target}`));
    for (const { kind, target, rule, reason } of it.denied ?? [])
      print(harmless(`  denied  ${kind} ${target}, by ${rule}: ${reason}`));
    if (it.rule && !flags.write) {
      print(paint('dim', 'To allow it, under `rules` of your policy file, or with --write:'));
      print(harmless(it.rule));
    } else if (it.suggestion && !flags.write) say(harmless(it.suggestion));
  }
  if (flags.write) return await writeRule(it.rule, caller);
  return it.decision === 'deny' ? EXIT.DENIED : EXIT.OK;
}

const STYLES = { allow: 'green', ask: 'yellow', deny: 'red' } as const;

/** Adds the rule to the policy file of the person. Throws OperatorError. */
async function writeRule(rule: string | undefined, { flags, env }: CliCaller): Promise<number> {
  if (rule === undefined || rule.startsWith('#'))
    throw new OperatorError(rule?.slice(2) ?? 'no rule is needed, or none can allow it: a rule decides already');
  const { changePolicy, whenApplied } = await import('../daemon/config/own-policy.ts');
  const { withRule } = await import('../daemon/config/policy-edits.ts');
  const file = changePolicy((text) => withRule(text, rule), findUserDirs(flags, env));
  say(harmless(`written to ${file.path}; ${whenApplied(file)}`));
  return EXIT.OK;
}

export async function policyReload(client: Pick<Client, 'request'>, { json }: JsonFlag = {}): Promise<number> {
  const { ok, problems } = await client.request('policy.reload', {});
  if (json) printJson({ ok, problems });
  else for (const problem of problems) print(harmless(problem));
  say(ok ? 'the policy was reloaded' : 'the new policy is not valid; the previous one stays in force');
  return ok ? EXIT.OK : EXIT.USAGE;
}
