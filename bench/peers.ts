/** Starts comparable servers, as far as script/bench has installed them below peers/ and they run here. */
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { rgPath } from '@vscode/ripgrep';
import { ringfence } from '../test/support/daemon.ts';
import type { Context } from './bench.ts';
import { type McpLine, startMcp } from './mcp-line.ts';
import { here, readJson } from './results.ts';

export const NOT_INSTALLED = 'it is not installed: script/bench does that';

const installed = (path: string) => here(`peers/node_modules/${path}`);
const nameOf = (name: string) => `${name} ${readJson<{ version: string }>(installed(`${name}/package.json`)).version}`;

interface Server {
  readonly name: string;
  readonly path: string;
  args(folder: string): readonly string[];
}

const FILES: Server = {
  name: '@modelcontextprotocol/server-filesystem',
  path: 'dist/index.js',
  args: (folder) => [folder],
};
const COMMANDS: Server = { name: 'mcp-server-commands', path: 'build/index.js', args: () => [] };
const COMMANDER: Server = {
  name: '@wonderwhy-er/desktop-commander',
  path: 'dist/index.js',
  args: () => ['--no-onboarding'],
};

const SERVERS = { files: FILES, commands: COMMANDS, commander: COMMANDER };

/** A running MCP server with its name and version. */
export interface Peer {
  readonly name: string;
  readonly line: McpLine;
}

interface Around {
  readonly folder: string;
  readonly home: string;
}

const environmentOf = (home: string) => ({ PATH: process.env.PATH ?? '', HOME: home });

/** Starts one server in `folder`; undefined if it is not installed. Rejects if it does not start. */
export async function startPeer(which: keyof typeof SERVERS, { folder, home }: Around): Promise<Peer | undefined> {
  const { name, path, args } = SERVERS[which];
  const program = installed(`${name}/${path}`);
  if (!existsSync(program)) return undefined;
  const started = { program: process.execPath, args: [program, ...args(folder)], cwd: folder };
  return { name: nameOf(name), line: await startMcp({ ...started, env: environmentOf(home) }) };
}

export interface Peers extends AsyncDisposable {
  readonly files?: Peer;
  readonly commands?: Peer;
  readonly commander?: Peer;
  /** Ringfence, as an MCP client reaches it. */
  readonly ours?: Peer;
}

/** Starts the installed servers, and tells the bench why others are missing. All work in `folder`, with a home directory of their own. */
export async function startPeers(bench: Context, { folder, home }: Around): Promise<Peers> {
  const parts = new AsyncDisposableStack();
  mkdirSync(join(home, '.claude-server-commander'), { recursive: true });
  const settings = { telemetryEnabled: false, allowedDirectories: [folder], defaultShell: '/bin/sh' };
  writeFileSync(join(home, '.claude-server-commander/config.json'), JSON.stringify(settings));
  const kept = async (name: string, starting: Promise<Peer | undefined>): Promise<Peer | undefined> => {
    try {
      const peer = await starting;
      if (!peer) bench.skip(name, NOT_INSTALLED);
      else parts.use(peer.line);
      return peer;
    } catch (error) {
      bench.skip(name, (error as Error).message);
      return undefined;
    }
  };
  const foreign = (which: keyof typeof SERVERS) => kept(SERVERS[which].name, startPeer(which, { folder, home }));
  const [files, commands, commander] = [await foreign('files'), await foreign('commands'), await foreign('commander')];
  const { socket } = await bench.daemon();
  const args = [ringfence, 'mcp', '--socket', socket, '--workspace', folder];
  const bridge = startMcp({ program: process.execPath, args, cwd: folder, env: environmentOf(home) });
  const ours = await kept(
    'ringfence mcp',
    bridge.then((line) => ({ name: 'ringfence mcp', line })),
  );
  return {
    ...(files && { files }),
    ...(commands && { commands }),
    ...(commander && { commander }),
    ...(ours && { ours }),
    [Symbol.asyncDispose]: () => parts.disposeAsync(),
  };
}

interface SandboxRuntime {
  readonly SandboxManager: {
    initialize(config: object): Promise<void>;
    wrapWithSandbox(command: string): Promise<string>;
    reset(): Promise<void>;
  };
}

/** Runs commands in @anthropic-ai/sandbox-runtime, used as its documentation says; disposing ends its proxies. */
export async function startSandboxRuntime(
  bench: Context,
  folder: string,
): Promise<({ readonly name: string; run(command: string): Promise<void> } & AsyncDisposable) | undefined> {
  const name = '@anthropic-ai/sandbox-runtime';
  const module = installed(`${name}/dist/index.js`);
  if (!existsSync(module)) {
    bench.skip(name, NOT_INSTALLED);
    return undefined;
  }
  const { SandboxManager } = (await import(pathToFileURL(module).href)) as SandboxRuntime;
  // The runtime looks for ripgrep on PATH.
  process.env.PATH = `${process.env.PATH}:${dirname(rgPath)}`;
  const network = { allowedDomains: [], deniedDomains: [] };
  try {
    const filesystem = { denyRead: [], allowWrite: [folder], denyWrite: [] };
    await SandboxManager.initialize({ network, filesystem });
  } catch (error) {
    bench.skip(nameOf(name), (error as Error).message);
    return undefined;
  }
  return {
    name: nameOf(name),
    async run(command) {
      const wrapped = await SandboxManager.wrapWithSandbox(command);
      const child = spawn(wrapped, { shell: true, cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] });
      for (const it of [child.stdout, child.stderr]) it.resume();
      const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
      if (code !== 0) throw new Error(`${name}: exit code ${code}`);
    },
    [Symbol.asyncDispose]: () => SandboxManager.reset(),
  };
}
