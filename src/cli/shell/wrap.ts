/**
 * `ringfence wrap -- AGENT`: starts an agent whose shells run in the sandbox and, where the agent is known, with
 * Ringfence as its MCP server and its own tools denied. Nothing of it outlives the run.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempDisposableSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { bin, entry } from '../../base/runtime.ts';
import { makeStateDir } from '../../daemon/user-dirs.ts';
import { type CliCaller, connect, userDirsOf } from '../connect.ts';
import { AGENT_NAMES, AGENTS, type AgentName, ALWAYS_GOES_PAST } from '../install/agents.ts';
import { CliError, EXIT, harmless, print, printJson, say, UsageError } from '../output.ts';
import { withJson } from './agent-json.ts';
import { WRAP } from './shell.ts';

/** Names under which agents start shells. */
const SHELLS = ['bash', 'sh', 'zsh', 'dash'] as const;

export interface WrapFlags {
  /** Whose settings to use: `none` for the shells alone; by the program's name if absent. */
  readonly client?: string;
  /** Let the agent call Ringfence's tools without asking by itself. */
  readonly trust?: boolean;
  /** Show what would be started, and start nothing. */
  readonly print?: boolean;
  readonly json?: boolean;
}

/** The command that is started, and the files that it needs in its folder. */
interface WrappedStart {
  readonly client: AgentName | 'none';
  readonly program: string;
  readonly args: readonly string[];
  /** Variables that are added or replaced. */
  readonly set: Readonly<Record<string, string>>;
  readonly files: readonly { readonly path: string; readonly text: string; readonly mode: number }[];
  readonly goesPast: readonly string[];
}

/** Runs the agent to its end. Returns its exit code. */
export async function wrap(
  [program, ...words]: readonly string[],
  flags: WrapFlags,
  caller: CliCaller,
): Promise<number> {
  if (program === undefined) throw new UsageError('name the agent to start: ringfence wrap -- AGENT');
  const root = resolve(caller.cwd, caller.flags.workspace ?? caller.cwd);
  const { stateDir } = userDirsOf(caller.flags, caller.env);
  const agent = { program, words, client: clientOf(program, flags.client), trusts: flags.trust ?? false };
  if (flags.print) {
    show(plan(agent, { folder: join(stateDir, 'wrap-XXXXXX'), root, caller }), flags);
    return EXIT.OK;
  }
  // Starts a daemon where none runs, and says so before the agent has the terminal.
  await (await connect({ ...caller, flags: { ...caller.flags, workspace: root } }))[Symbol.asyncDispose]();
  makeStateDir(stateDir);
  removeAbandoned(stateDir);
  // Not in /tmp: Gemini CLI reads no settings below a folder that others may write.
  using folder = mkdtempDisposableSync(join(stateDir, `${FOLDER}${process.pid}-`));
  const start = plan(agent, { folder: folder.path, root, caller });
  mkdirSync(join(folder.path, 'bin'));
  for (const { path, text, mode } of start.files) writeFileSync(path, text, { mode, flag: 'wx' });
  const env = { ...caller.env, ...start.set };
  writeFileSync(join(folder.path, ENVIRONMENT), JSON.stringify(env), { mode: 0o600, flag: 'wx' });
  return await run(start, env);
}

/** Folders of runs, by the id of their process. */
const FOLDER = 'wrap-';

/** Removes what runs left that were killed: the environment of a person is in it. */
function removeAbandoned(stateDir: string): void {
  for (const name of readdirSync(stateDir)) {
    const pid = new RegExp(`^${FOLDER}(\\d+)-`).exec(name)?.[1];
    if (pid !== undefined && !existsSync(`/proc/${pid}`))
      rmSync(join(stateDir, name), { recursive: true, force: true });
  }
}

/** Throws UsageError for an agent that is not known. */
function clientOf(program: string, asked: string | undefined): AgentName | 'none' {
  const name = asked ?? basename(program);
  const known = AGENT_NAMES.find((it) => it === name);
  if (known !== undefined || asked === undefined || asked === 'none') return known ?? 'none';
  throw new UsageError(`no client is named ${harmless(asked)}; the clients are: ${AGENT_NAMES.join(', ')}, none`);
}

const ENVIRONMENT = 'environment.json';

interface AgentToStart {
  readonly program: string;
  readonly words: readonly string[];
  readonly client: AgentName | 'none';
  readonly trusts: boolean;
}

function plan(
  { program, words, client, trusts }: AgentToStart,
  { folder, root, caller }: { folder: string; root: string; caller: CliCaller },
): WrappedStart {
  const { env, flags } = caller;
  // Agents such as Codex hand few variables on to their servers, so these are flags.
  const socket = flags.socket ?? (env.RINGFENCE_SOCKET || undefined);
  const state = flags.state ?? (env.RINGFENCE_STATE || undefined);
  const options = Object.entries({ socket, state, mode: flags.mode })
    .flatMap(([name, value]) => (value === undefined ? [] : [`--${name}`, value]))
    .concat(['--workspace', root]);
  const line = [process.execPath, entry('entries/cli'), 'sh', ...options].map(quoted).join(' ');
  const shells = SHELLS.map((name) => ({
    path: join(folder, 'bin', name),
    text: `#!/bin/sh\nexec ${line} "$@"\n`,
    mode: 0o755,
  }));
  const agent = client === 'none' ? undefined : AGENTS[client];
  // Node is named by its path: a launcher such as npx would start the server in one of the shells above.
  const own = agent?.start({ command: process.execPath, args: [bin, 'mcp', ...options] }, trusts);
  const json = own?.json && withJson(own.json, env, folder);
  const bins = join(folder, 'bin');
  return {
    client,
    program,
    args: [...(own?.args ?? []), ...words],
    set: {
      PATH: `${bins}:${env.PATH ?? '/usr/bin:/bin'}`,
      SHELL: join(bins, 'bash'),
      RINGFENCE_SESSION: env.RINGFENCE_SESSION || `wrap-${process.pid}`,
      [WRAP.root]: root,
      [WRAP.environment]: join(folder, ENVIRONMENT),
      ...json?.set,
    },
    files: [...shells, ...(json?.file ? [{ ...json.file, mode: 0o600 }] : [])],
    goesPast: [...(agent?.goesPast ?? ["the agent's own tools for files, programs and the web"]), ...ALWAYS_GOES_PAST],
  };
}

const quoted = (word: string): string => `'${word.replaceAll("'", String.raw`'\''`)}'`;

function show({ client, program, args, set, files, goesPast }: WrappedStart, { json }: WrapFlags): void {
  if (json) {
    printJson({ client, command: [program, ...args], environment: set, files, goesPast });
    return;
  }
  const variables = Object.entries(set).map(([name, value]) => `  ${name}=${value}`);
  const texts = files.map(({ path, text }) => `  ${path}:\n${text.trimEnd().replaceAll(/^/gm, '    ')}`);
  const parts = [
    ['command', `  ${[program, ...args].map((it) => (/^[\w@%+=:,./-]+$/.test(it) ? it : quoted(it))).join(' ')}`],
    ['environment, beside that of now', ...variables],
    ['files, removed when the agent ends', ...texts],
    ['what can still go past Ringfence', ...goesPast.map((it) => `  - ${it}`)],
  ];
  print(harmless(parts.map((it) => it.join('\n')).join('\n\n')));
}

async function run({ program, args }: WrappedStart, env: NodeJS.ProcessEnv): Promise<number> {
  // A terminal sends SIGINT to both; the agent decides what it means.
  process.on('SIGINT', () => {});
  try {
    const child = spawn(program, args, { stdio: 'inherit', env });
    for (const signal of ['SIGTERM', 'SIGHUP'] as const) process.on(signal, () => child.kill(signal));
    const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null];
    if (signal !== null) say(`${harmless(program)} was ended by ${signal}`);
    return code ?? 128 + constants.signals[signal ?? 'SIGTERM'];
  } catch (error) {
    throw new CliError(127, `${harmless(program)} can't be started: ${(error as Error).message}`);
  }
}
