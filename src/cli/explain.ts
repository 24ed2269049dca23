import type { Client } from '../client.ts';
import { parseJson } from '../parse-json.ts';
import { CliError, EXIT, harmless, print, printJson, say } from './output.ts';

interface Decision {
  decision: 'allow' | 'ask' | 'deny';
  effects: { kind: string; target: string }[];
  rules: { id: string; decision: string; reason: string; source: string }[];
  suggestion?: string;
}

/** `ringfence policy explain TOOL JSON`: 0 when the call would be allowed or asked about, 4 when it is denied. */
export async function policyExplain(
  { tool, json = '{}' }: { tool: string; json?: string | undefined },
  flags: { readonly json?: boolean },
  client: Pick<Client, 'request'>,
): Promise<number> {
  const it = (await client.request('policy.explain', { tool, input: parse(json) })) as Decision;
  if (flags.json) printJson(it);
  else {
    print(it.decision);
    for (const { kind, target } of it.effects) print(harmless(`  ${kind.padEnd(7)} ${target}`));
    for (const { id, decision, reason, source } of it.rules)
      print(harmless(`  ${decision.padEnd(5)} by ${id} (${source}): ${reason}`));
    if (it.suggestion) say(harmless(it.suggestion));
  }
  return it.decision === 'deny' ? EXIT.DENIED : EXIT.OK;
}

function parse(json: string): unknown {
  try {
    return parseJson(json);
  } catch (error) {
    throw new CliError(EXIT.USAGE, `the input is not JSON: ${(error as Error).message}`);
  }
}

/** `ringfence policy reload`. Gives the exit code. */
export async function policyReload(client: Pick<Client, 'request'>): Promise<number> {
  const { ok, problems } = (await client.request('policy.reload', {})) as { ok: boolean; problems: string[] };
  for (const problem of problems) print(harmless(problem));
  say(ok ? 'the policy was read anew' : 'the policy is not taken; the one before stays in force');
  return ok ? EXIT.OK : EXIT.USAGE;
}
