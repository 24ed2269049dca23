import type { Client } from '../client/client.ts';
import type { ToolInfo } from '../tools/capability.ts';
import type { ToolFormat } from '../tools/registry.ts';
import { type CliCaller, connect } from './connect.ts';
import { EXIT, harmless, OperatorError, print, printJson, say } from './output.ts';

export interface ToolsFlags {
  readonly format?: ToolFormat;
  readonly json?: boolean;
  /** Tools for an API: all, or those that most work needs. */
  readonly tools?: 'default' | 'all';
  /** Words of tools to find. */
  readonly search?: string;
}

/** `ringfence tools [NAME]`. Returns the exit code. */
export async function tools(
  name: string | undefined,
  { format, json, search, tools: which = name === undefined ? 'default' : 'all' }: ToolsFlags,
  caller: CliCaller,
): Promise<number> {
  await using client = await connect(caller);
  if (search !== undefined) return await find(search, json, client);
  const estimates = name !== undefined && (format ?? 'ringfence') === 'ringfence';
  const infos = await client.tools('ringfence', { estimates });
  const wanted = name === undefined ? infos : infos.filter((it) => it.name === name || it.aliases.includes(name));
  if (name !== undefined && wanted.length === 0)
    throw new OperatorError(`no tool is named ${name}; the tools are: ${infos.map((it) => it.name).join(', ')}`);
  if (format !== undefined && format !== 'ringfence') {
    const listed = await client.tools(format, { tools: which });
    printJson(
      listed.filter((it) => wanted.some((info) => info.name === ('function' in it ? it.function.name : it.name))),
    );
  } else if (json || format) printJson(name === undefined ? wanted : wanted[0]);
  else if (name === undefined)
    for (const it of wanted) print(`${it.name.padEnd(20)} ${it.tier.padEnd(12)} ${it.decision.padEnd(6)} ${it.title}`);
  else for (const it of wanted) explain(it);
  return EXIT.OK;
}

async function find(query: string, json: boolean | undefined, client: Client): Promise<number> {
  const found = await client.request('tools.search', { query });
  if (json) printJson(found);
  else
    for (const { name, summary, why } of found.tools)
      print(harmless(`${name.padEnd(20)} ${summary}${why === undefined ? '' : ` (${why})`}`));
  if (!json && found.total > found.tools.length) say(`${found.total - found.tools.length} more match`);
  return found.total > 0 ? EXIT.OK : EXIT.FAILED;
}

function explain({ name, description, tier, decision, aliases, inputSchema, ...it }: ToolInfo): void {
  print(`${name} — ${description}\n\ntier: ${tier}   decision: ${decision}   aliases: ${aliases.join(', ')}`);
  const { capabilities, dependencies, documentation, health, majors, deprecated } = it;
  if (health) print(harmless(`does not work now: ${health.message ?? 'no reason given'}`));
  if (majors) print(`versions: ${majors.map((major) => `${name}@${major}`).join(', ')}`);
  if (deprecated?.replacement !== undefined) print(harmless(`deprecated: use ${deprecated.replacement} instead`));
  if (it.estimatedTime !== undefined) print(`usually takes: ${it.estimatedTime} ms`);
  if (dependencies.length > 0) print(`usually after: ${dependencies.join(', ')}`);
  if (documentation !== undefined) print(`reference: ${documentation}`);
  if (capabilities.length > 0) print('\ncan:');
  for (const { action, description } of capabilities) print(harmless(`  ${action.padEnd(12)} ${description}`));
  print('\ninput:');
  printJson((inputSchema as { properties: object }).properties);
}
