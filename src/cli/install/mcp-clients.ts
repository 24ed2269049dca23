/** The files in which MCP clients store their list of servers, and the form of our entry there. As of July to November 2026. */
import { join } from 'node:path';

export type Scope = 'user' | 'project';

export interface ServerLaunch {
  readonly command: string;
  readonly args: readonly string[];
}

export interface InstallContext {
  readonly home: string;
  readonly configHome: string;
  /** The project's folder. */
  readonly cwd: string;
}

/** One list of servers: its file, the place in the file, and our entry. */
export interface ConfigTarget {
  /** Absolute paths; the first existing one is used, otherwise the first. */
  readonly files: readonly string[];
  readonly format: 'json' | 'toml';
  /** Keys down to the entry. */
  readonly path: readonly [string, string];
  readonly entry: Readonly<Record<string, unknown>>;
  /** Commands of the client itself, for a file that the client rewrites constantly. */
  readonly own?: { readonly program: string; readonly add: readonly string[]; readonly remove: readonly string[] };
}

/** Time for a call that waits for a person, in seconds; several clients stop after one minute by default. */
export const TOOL_TIMEOUT_SEC = 600;
const NAME = 'ringfence';

type ToTarget = (scope: Scope, launch: ServerLaunch, around: InstallContext) => ConfigTarget;

const json = (files: readonly string[], list: string, entry: ConfigTarget['entry']): ConfigTarget => ({
  files,
  format: 'json',
  path: [list, NAME],
  entry,
});

/** Adds the folder to the command, since editors start servers in any folder. */
const inFolder = ({ command, args }: ServerLaunch): ServerLaunch => ({
  command,
  args: [...args, '--workspace', '${workspaceFolder}'],
});

export const MCP_CLIENTS: Readonly<Record<string, ToTarget>> = {
  claude: (scope, { command, args }, { home, cwd }) => {
    const entry = { type: 'stdio', command, args };
    if (scope === 'project') return json([join(cwd, '.mcp.json')], 'mcpServers', entry);
    const own = {
      program: 'claude',
      add: ['mcp', 'add', '-s', 'user', NAME, '--', command, ...args],
      remove: ['mcp', 'remove', '-s', 'user', NAME],
    };
    return { ...json([join(home, '.claude.json')], 'mcpServers', entry), own };
  },
  codex: (scope, { command, args }, { home, cwd }) => ({
    files: [join(scope === 'user' ? home : cwd, '.codex/config.toml')],
    format: 'toml',
    path: ['mcp_servers', NAME],
    // The daemon itself orders calls that must not run in parallel.
    entry: { command, args, tool_timeout_sec: TOOL_TIMEOUT_SEC, supports_parallel_tool_calls: true },
  }),
  gemini: (scope, { command, args }, { home, cwd }) =>
    json([join(scope === 'user' ? home : cwd, '.gemini/settings.json')], 'mcpServers', {
      command,
      args,
      timeout: TOOL_TIMEOUT_SEC * 1000,
    }),
  opencode: (scope, { command, args }, { configHome, cwd }) => {
    const folder = scope === 'user' ? join(configHome, 'opencode') : cwd;
    return json([join(folder, 'opencode.jsonc'), join(folder, 'opencode.json')], 'mcp', {
      type: 'local',
      command: [command, ...args],
      enabled: true,
      timeout: TOOL_TIMEOUT_SEC * 1000,
    });
  },
  cursor: (scope, launch, { home, cwd }) =>
    json([join(scope === 'user' ? home : cwd, '.cursor/mcp.json')], 'mcpServers', { ...inFolder(launch) }),
  vscode: (scope, launch, { configHome, cwd }) =>
    json([scope === 'user' ? join(configHome, 'Code/User/mcp.json') : join(cwd, '.vscode/mcp.json')], 'servers', {
      type: 'stdio',
      ...inFolder(launch),
    }),
  zed: (scope, { command, args }, { configHome, cwd }) =>
    json(
      [scope === 'user' ? join(configHome, 'zed/settings.json') : join(cwd, '.zed/settings.json')],
      'context_servers',
      {
        command,
        args,
        env: {},
      },
    ),
};
