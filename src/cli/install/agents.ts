/**
 * Agents that bring tools of their own, and the settings by which those are denied. Names of tools and settings as of
 * November 2026, each tried with the real program (test/daemon/agents.test.ts).
 */
import { join } from 'node:path';
import { type InstallContext, type Scope, type ServerLaunch, TOOL_TIMEOUT_SEC } from './mcp-clients.ts';

export const AGENT_NAMES = ['claude', 'codex', 'gemini', 'opencode'] as const;
export type AgentName = (typeof AGENT_NAMES)[number];

/** One setting of a configuration file: a value, or members that a list must have. */
export type Setting = { readonly path: readonly string[] } & (
  | { readonly value: string | boolean }
  | { readonly members: readonly string[] }
);

/** Settings that deny an agent's own tools for good. */
export interface Denials {
  /** Absolute paths; the first existing one is used, otherwise the first. */
  readonly files: readonly string[];
  readonly format: 'json' | 'toml';
  readonly settings: readonly Setting[];
}

/** How an agent is started with its own tools denied, leaving the person's files as they are. */
export interface AgentStart {
  /** Arguments before the person's own. */
  readonly args: readonly string[];
  /** JSON that is merged over what the variable, or the file that it names, holds already. */
  readonly json?: {
    readonly variable: string;
    /** Whether the variable names a file instead of holding the JSON. */
    readonly inFile: boolean;
    /** The file that the program reads where the variable is not set. */
    readonly otherwise?: string;
    readonly value: Readonly<Record<string, unknown>>;
  };
}

export interface Agent {
  /** With `trusts`, the agent itself asks nobody before it calls a tool of Ringfence: the policy decides. */
  readonly start: (launch: ServerLaunch, trusts: boolean) => AgentStart;
  readonly denials: (scope: Scope, around: InstallContext) => Denials;
  /** What of this agent can still go past Ringfence. */
  readonly goesPast: readonly string[];
}

const NAME = 'ringfence';

const CLAUDE_DENIED = [
  ...['Bash', 'BashOutput', 'KillShell', 'Monitor', 'PowerShell', 'LSP'],
  ...['Read', 'Edit', 'Write', 'NotebookEdit', 'Glob', 'Grep', 'WebFetch', 'WebSearch'],
];
/** Built-in tools that touch neither files nor programs nor the web; a tool that is new in some version is off. */
const CLAUDE_KEPT = [
  ...['Agent', 'AskUserQuestion', 'EnterPlanMode', 'ExitPlanMode', 'Skill', 'TodoWrite'],
  ...['TaskCreate', 'TaskGet', 'TaskList', 'TaskStop', 'TaskUpdate'],
];

const CODEX_FEATURES_OFF = [
  ...['shell_tool', 'unified_exec', 'view_image', 'image_generation'],
  ...['browser_use', 'browser_use_external', 'browser_use_full_cdp_access', 'computer_use', 'in_app_browser'],
];
/** The patch tool can't be switched off; in a read-only sandbox it is refused, or asks the person. */
const CODEX_SETTINGS: readonly (Setting & { readonly value: string | boolean })[] = [
  { path: ['sandbox_mode'], value: 'read-only' },
  { path: ['web_search'], value: 'disabled' },
  ...CODEX_FEATURES_OFF.map((name) => ({ path: ['features', name], value: false })),
];

const GEMINI_DENIED = [
  ...['run_shell_command', 'list_background_processes', 'read_background_output'],
  ...['read_file', 'read_many_files', 'write_file', 'replace', 'glob', 'grep_search', 'search_file_content'],
  ...['list_directory', 'web_fetch', 'google_web_search'],
];

const OPENCODE_DENIED = [
  ...['bash', 'read', 'edit', 'glob', 'grep', 'list', 'lsp'],
  ...['webfetch', 'websearch', 'codesearch', 'external_directory'],
];
/** The last rule that matches decides. With a star, a name stands behind a project's rules for the name and for `*`. */
const OPENCODE_RULES = [...OPENCODE_DENIED, ...OPENCODE_DENIED.map((it) => `${it}*`)];

export const AGENTS: Readonly<Record<AgentName, Agent>> = {
  claude: {
    start: ({ command, args }, trusts) => ({
      // With `=`, since these flags take all words that follow.
      args: [
        `--mcp-config=${JSON.stringify({ mcpServers: { [NAME]: { type: 'stdio', command, args } } })}`,
        `--tools=${CLAUDE_KEPT.join()}`,
        `--disallowedTools=${CLAUDE_DENIED.join()}`,
        ...(trusts ? [`--allowedTools=mcp__${NAME}`] : []),
      ],
    }),
    denials: (scope, { home, cwd }) => ({
      files: [join(scope === 'user' ? home : cwd, '.claude/settings.json')],
      format: 'json',
      settings: [{ path: ['permissions', 'deny'], members: CLAUDE_DENIED }],
    }),
    goesPast: [
      'Claude Code: commands that you type behind `!`, the status line, and hooks of settings and plugins',
      'Claude Code: tools that a later version brings under new names, with `install --exclusive` alone',
    ],
  },
  codex: {
    start: ({ command, args }, trusts) => {
      const server = [
        `command=${JSON.stringify(command)}`,
        `args=${JSON.stringify(args)}`,
        `tool_timeout_sec=${TOOL_TIMEOUT_SEC}`,
        'supports_parallel_tool_calls=true',
        // Codex waits for the server, and ends if it does not start.
        'required=true',
        ...(trusts ? ['default_tools_approval_mode="approve"'] : []),
      ];
      const overrides = [
        `mcp_servers.${NAME}={${server.join()}}`,
        ...CODEX_SETTINGS.map(({ path, value }) => `${path.join('.')}=${JSON.stringify(value)}`),
      ];
      return { args: overrides.flatMap((it) => ['-c', it]) };
    },
    denials: (scope, { home, cwd }) => ({
      files: [join(scope === 'user' ? home : cwd, '.codex/config.toml')],
      format: 'toml',
      settings: CODEX_SETTINGS,
    }),
    goesPast: [
      'Codex: `apply_patch`, which no setting switches off: its sandbox is read-only, so that it asks you, or is refused in `codex exec`',
      'Codex: flags that you give it yourself, such as `--sandbox` and `--dangerously-bypass-approvals-and-sandbox`',
      'Codex: connected apps, hooks, and tools that a later version brings under new names',
    ],
  },
  gemini: {
    start: (launch, trusts) => ({
      args: [],
      json: {
        variable: 'GEMINI_CLI_SYSTEM_SETTINGS_PATH',
        inFile: true,
        otherwise: '/etc/gemini-cli/settings.json',
        value: {
          mcpServers: { [NAME]: { ...launch, timeout: TOOL_TIMEOUT_SEC * 1000, ...(trusts && { trust: true }) } },
          tools: { exclude: GEMINI_DENIED },
        },
      },
    }),
    denials: (scope, { home, cwd }) => ({
      files: [join(scope === 'user' ? home : cwd, '.gemini/settings.json')],
      format: 'json',
      settings: [{ path: ['tools', 'exclude'], members: GEMINI_DENIED }],
    }),
    goesPast: [
      'Gemini CLI: commands that you type behind `!`, files that you name behind `@`, hooks, and extensions',
      'Gemini CLI: tools that a later version brings under new names',
    ],
  },
  opencode: {
    start: ({ command, args }, trusts) => ({
      args: [],
      json: {
        variable: 'OPENCODE_CONFIG_CONTENT',
        inFile: false,
        value: {
          mcp: {
            [NAME]: {
              type: 'local',
              command: [command, ...args],
              enabled: true,
              timeout: TOOL_TIMEOUT_SEC * 1000,
            },
          },
          permission: {
            ...(trusts && { [`${NAME}_*`]: 'allow' }),
            ...Object.fromEntries(OPENCODE_RULES.map((it) => [it, 'deny'])),
          },
        },
      },
    }),
    denials: (scope, { configHome, cwd }) => {
      const folder = scope === 'user' ? join(configHome, 'opencode') : cwd;
      return {
        files: [join(folder, 'opencode.jsonc'), join(folder, 'opencode.json')],
        format: 'json',
        settings: OPENCODE_RULES.map((it) => ({ path: ['permission', it], value: 'deny' })),
      };
    },
    goesPast: [
      'opencode: permissions of a single agent (`agent.NAME.permission`, `.opencode/agent/`), also those of a project',
      'opencode: commands that you type behind `!`, plugins, language servers, formatters, and tools of `.opencode/tool/`',
    ],
  },
};

/** What can go past Ringfence whichever agent it is. */
export const ALWAYS_GOES_PAST: readonly string[] = [
  'a shell by its absolute path, such as `/bin/bash`, and scripts that begin with `#!/bin/sh`',
  'programs that the agent starts without a shell, such as `git`, `rg` or `node`',
  'what the agent does by itself: requests to its model, its updates, its own files',
  'other MCP servers in the settings of the agent',
];
