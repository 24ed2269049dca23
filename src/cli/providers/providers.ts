/** `ringfence providers`: lists external servers and changes of their tools, and accepts these. */

import { showLine } from '../../base/text/shown-text.ts';
import type { ProvidedTool, ProviderInfo } from '../../services/providers/providers.ts';
import { EXIT, type JsonFlag, print, printJson, say, UsageError } from '../output.ts';

/** The part of a client that providers need. */
export interface ProvidersClient {
  request(method: string, params: unknown): Promise<unknown>;
}

/** Lists all providers, or one with its tools and their changes. Returns the exit code. */
export async function providersList(
  client: ProvidersClient,
  name: string | undefined,
  flags: JsonFlag,
): Promise<number> {
  const all = await listed(client);
  const shown = name === undefined ? all : [find(all, name)];
  if (flags.json) printJson(name === undefined ? shown : shown[0]);
  else if (shown.length === 0) say('no providers are configured; read docs/how-to/providers.md to add one');
  else for (const it of shown) show(it, name !== undefined);
  return EXIT.OK;
}

/**
 * Accepts changed and new tools given as `TOOL@CODE`, with the code that `list` showed for them, since the server's definition may have
 * changed again. Without tools, shows what is pending and how to accept it. Returns the exit code.
 */
export async function providersAccept(
  client: ProvidersClient,
  name: string,
  seen: readonly string[],
  { json }: JsonFlag = {},
): Promise<number> {
  const waiting = find(await listed(client), name).tools.filter(isPending);
  if (seen.length === 0) {
    if (json) printJson(waiting.map((it) => ({ ...it, mark: markOf(it) })));
    else for (const it of waiting) showTool(it);
    say(waiting.length === 0 ? `no tool of ${name} waits for acceptance` : `accept with: ${commandOf(name, waiting)}`);
    return waiting.length === 0 ? EXIT.OK : EXIT.FAILED;
  }
  const wanted = seen.map((it) => {
    const found = waiting.find((tool) => markOf(tool) === it);
    if (found) return found;
    throw new UsageError(
      `no tool of ${name} waits for acceptance as ${showLine(it)}; waiting: ${waiting.map(markOf).join(' ') || 'none'}`,
    );
  });
  const tools = Object.fromEntries(wanted.map(({ tool, digest }) => [tool, digest]));
  const accepted = await client.request('providers.accept', { provider: name, tools });
  if (json) printJson(accepted);
  say(`accepted ${Object.keys(tools).join(', ')}`);
  return EXIT.OK;
}

const CODE_CHARS = 12;

/** Identifies a tool in the shown form. */
const markOf = ({ tool, digest = '' }: ProvidedTool): string =>
  `${tool}@${digest.replace('sha256:', '').slice(0, CODE_CHARS)}`;

const commandOf = (name: string, tools: readonly ProvidedTool[]): string =>
  showLine(`ringfence providers accept ${name} ${tools.map(markOf).join(' ')}`);

/** Checks that all providers run and that no tool waits for a person. Returns the exit code: 1 if not. */
export async function providersCheck(client: ProvidersClient, { json }: JsonFlag = {}): Promise<number> {
  const wrong = (await listed(client)).filter((it) => it.pending > 0 || !['ready', 'idle'].includes(it.state));
  if (json) printJson({ ok: wrong.length === 0, wrong });
  else for (const it of wrong) show(it, false);
  return wrong.length === 0 ? EXIT.OK : EXIT.FAILED;
}

async function listed(client: ProvidersClient): Promise<ProviderInfo[]> {
  return ((await client.request('providers.list', {})) as { providers: ProviderInfo[] }).providers;
}

function find(all: readonly ProviderInfo[], name: string): ProviderInfo {
  const found = all.find((it) => it.name === name);
  if (found) return found;
  throw new UsageError(
    `no provider is named ${name}; the providers are: ${all.map((it) => it.name).join(', ') || 'none'}`,
  );
}

const isPending = ({ state }: ProvidedTool): boolean => state === 'changed' || state === 'new';

function show({ name, kind, tier, state, pending, tools, restarts, reason }: ProviderInfo, isWhole: boolean): void {
  const offered = tools.filter((it) => it.state === 'accepted').length;
  const waiting = pending > 0 ? `, ${pending} to accept: \`ringfence providers accept ${name}\`` : '';
  print(
    showLine(`${name.padEnd(16)} ${state.padEnd(9)} ${kind.padEnd(5)} ${tier.padEnd(12)} ${offered} tools${waiting}`),
  );
  if (state !== 'ready' && reason !== undefined) {
    print(showLine(`  ended: ${reason} (restarted ${restarts} times)`));
    if (kind === 'stdio') say("the daemon's log holds its standard error output");
  }
  if (isWhole) for (const it of tools) showTool(it);
}

/** Prints a tool. Texts of the server are escaped, so that they can neither move the cursor nor hide a line. */
function showTool(it: ProvidedTool): void {
  const { tool, name, state, reason, accepted, offered } = it;
  const mark = isPending(it) ? `   ${markOf(it)}` : '';
  print(showLine(`  ${state.padEnd(9)} ${name ?? tool}${mark}${reason === undefined ? '' : `: ${reason}`}`));
  for (const line of changesOf(accepted, offered)) print(`    ${line}`);
}

/** Longer texts are printed in parts, since nothing that a person accepts may be left out. */
const PART_CHARS = 500;

/** Lines removed (`-`) and added (`+`), each with its path, since the same words elsewhere mean something else. */
export function changesOf(accepted: unknown, offered: unknown): string[] {
  const [was, is] = [accepted, offered].map((it) => (it === undefined ? [] : statementsOf(it, '')));
  const shown = (sign: string, lines: readonly string[] = [], others: readonly string[] = []) => {
    const known = new Set(others);
    const parts = lines.filter((it) => !known.has(it)).flatMap((line) => line.match(PARTS) ?? []);
    return parts.map((part) => `${sign} ${showLine(part)}`);
  };
  return [...shown('-', was, is), ...shown('+', is, was)];
}

const PARTS = new RegExp(`.{1,${PART_CHARS}}`, 'gsu');

/** One line for each leaf value: `inputSchema.properties.text.type: "string"`. */
function statementsOf(value: unknown, path: string): string[] {
  const entries = typeof value === 'object' && value !== null ? Object.entries(value) : [];
  if (entries.length === 0) return [`${path}: ${JSON.stringify(value)}`];
  return entries.flatMap(([key, it]) => {
    const name = /^[\w$-]+$/.test(key) ? key : JSON.stringify(key);
    return statementsOf(it, path === '' ? name : `${path}.${name}`);
  });
}
