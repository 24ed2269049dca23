/**
 * Agents as `ringfence wrap` starts them: the real programs where `script/agents` has installed them, before a model
 * that is a script; without them, what the programs would be given, by the schemas that they document.
 */
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { parse as parseToml } from 'smol-toml';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { AGENT_NAMES, AGENTS, type AgentName, ALWAYS_GOES_PAST } from '../../src/cli/install/agents.ts';
import { endOf, runCli } from '../support/cli.ts';
import { type OpenDaemon, openDaemon, removeTree, repository } from '../support/daemon.ts';
import { responseOf, type ScriptedModel, startModel, type Turns } from '../support/model.ts';

const installed = join(repository, 'tools/agents/node_modules');
const PROGRAMS: Readonly<Record<AgentName, string>> = {
  claude: join(installed, '.bin/claude'),
  codex: join(installed, '.bin/codex'),
  gemini: join(installed, '.bin/gemini'),
  opencode: join(installed, 'opencode-linux-x64/bin/opencode'),
};

/** Whether nobody else may write to a folder or to one above it: Gemini CLI reads no settings elsewhere. */
const isUnshared = (path: string): boolean =>
  (statSync(path).mode & 0o022) === 0 && (path === dirname(path) || isUnshared(dirname(path)));
// The checkout may be below /tmp.
const parent = [join(repository, 'dist'), homedir()].find(isUnshared);
const folder = mkdtempSync(join(parent ?? join(repository, 'dist'), '.agents-'));
const home = join(folder, 'home');
let daemon: OpenDaemon;
beforeAll(async () => {
  mkdirSync(home);
  mkdirSync(join(folder, 'ws'));
  daemon = await openDaemon({ stateDir: join(folder, 'state'), workspace: join(folder, 'ws') });
});
afterAll(async () => {
  await daemon[Symbol.asyncDispose]();
  removeTree(folder);
});

const wrap = (words: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  runCli(daemon, ['wrap', '--workspace', daemon.workspace, ...words], { env: { HOME: home, ...env } });

interface Printed {
  client: string;
  command: string[];
  environment: Record<string, string>;
  files: { path: string; text: string }[];
  goesPast: string[];
}

async function printed(words: readonly string[], env?: Readonly<Record<string, string>>): Promise<Printed> {
  const run = await wrap(['--print', '--json', ...words], env);
  expect(run).toMatchObject({ code: 0, stderr: '' });
  return JSON.parse(run.stdout);
}

describe('what an agent is given', () => {
  test('claude: a server, the built-in tools that are left, and those that are denied', async () => {
    const { client, command } = await printed(['--', 'claude', '-p', 'hello']);
    expect(client).toBe('claude');
    expect([command[0], ...command.slice(-2)]).toEqual(['claude', '-p', 'hello']);
    const flags = new Map(command.slice(1, -2).map((it) => it.split(/=(.*)/s) as [string, string]));
    expect(JSON.parse(flags.get('--mcp-config') ?? '').mcpServers.ringfence).toMatchObject({
      type: 'stdio',
      args: expect.arrayContaining(['mcp', '--workspace', daemon.workspace]),
    });
    expect(flags.get('--disallowedTools')?.split(',')).toEqual(
      expect.arrayContaining(['Bash', 'Read', 'Write', 'Edit', 'WebFetch', 'WebSearch']),
    );
    expect(flags.get('--tools')).not.toMatch(/Bash|Read|Edit|Web/);
  });

  test('codex: overrides that are TOML', async () => {
    const { command } = await printed(['--client', 'codex', '--', '/opt/my-codex']);
    const lines = command.filter((_, index) => command[index - 1] === '-c');
    expect(parseToml(lines.join('\n'))).toMatchObject({
      sandbox_mode: 'read-only',
      web_search: 'disabled',
      features: { shell_tool: false, unified_exec: false },
      mcp_servers: { ringfence: { tool_timeout_sec: 600 } },
    });
  });

  test.skipIf(!parent)('gemini: the settings of the machine, and over them ours', async () => {
    const present = join(folder, 'present.json');
    writeFileSync(present, '{ "ui": {"theme": "dark"}, "tools": {"exclude": ["save_memory"]} } // mine');
    const { environment, files } = await printed(['--', 'gemini'], { GEMINI_CLI_SYSTEM_SETTINGS_PATH: present });
    const file = files.find((it) => it.path === environment.GEMINI_CLI_SYSTEM_SETTINGS_PATH);
    const settings = JSON.parse(file?.text ?? '');
    expect(settings).toMatchObject({ ui: { theme: 'dark' }, mcpServers: { ringfence: { timeout: 600_000 } } });
    expect(settings.tools.exclude).toEqual(expect.arrayContaining(['save_memory', 'run_shell_command', 'read_file']));
  });

  test('opencode: the content of its variable, and over it ours as the last rules', async () => {
    const OPENCODE_CONFIG_CONTENT = '{"model": "m/x", "permission": {"bash": "allow", "*": "ask"}}';
    const { environment } = await printed(['--', 'opencode'], { OPENCODE_CONFIG_CONTENT });
    const { model, permission, mcp } = JSON.parse(environment.OPENCODE_CONFIG_CONTENT ?? '');
    expect(model).toBe('m/x');
    expect(mcp.ringfence).toMatchObject({ type: 'local', enabled: true });
    expect(Object.keys(permission).slice(0, 2)).toEqual(['*', 'bash']);
    expect(permission.bash).toBe('deny');
  });

  test.skipIf(!parent)('--trust: each agent in its own words, and nothing of it without', async () => {
    const words = { claude: '--allowedTools=mcp__ringfence', codex: 'approval_mode="approve"' } as const;
    const others = { gemini: '"trust": true', opencode: 'ringfence_*' } as const;
    for (const [name, word] of Object.entries({ ...words, ...others })) {
      expect((await wrap(['--print', '--trust', '--', name])).stdout).toContain(word);
      expect((await wrap(['--print', '--', name])).stdout).not.toContain(word);
    }
  });

  test('another agent, and one with --client none: the shells alone', async () => {
    for (const words of [
      ['--', 'my-agent'],
      ['--client', 'none', '--', 'claude'],
    ]) {
      const { client, command, environment } = await printed(words);
      expect(client).toBe('none');
      expect(command).toEqual([words.at(-1)]);
      expect(environment.SHELL).toMatch(/\/bin\/bash$/);
    }
    expect(await wrap(['--client', 'emacs', '--', 'emacs'])).toMatchObject({ code: 2 });
  });

  test('the ways past the sandbox are printed, and are in the docs by the same words', async () => {
    const page = readFileSync(join(repository, 'docs/how-to/agents-with-shells.md'), 'utf8').replaceAll(/\s+/g, ' ');
    for (const line of [...AGENT_NAMES.flatMap((it) => AGENTS[it].goesPast), ...ALWAYS_GOES_PAST])
      expect(page).toContain(line);
    const { stdout } = await wrap(['--print', '--', 'codex']);
    for (const line of [...AGENTS.codex.goesPast, ...ALWAYS_GOES_PAST]) expect(stdout).toContain(`- ${line}`);
  });

  test('settings that can not be read, or would not be, start nothing', async () => {
    const bad = await wrap(['--', 'opencode'], { OPENCODE_CONFIG_CONTENT: '{"model": ' });
    expect(bad).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('OPENCODE_CONFIG_CONTENT: the file is not JSON'),
    });
    const open = await openDaemon();
    try {
      const refused = await runCli(open, ['wrap', '--workspace', open.workspace, '--', 'gemini']);
      expect(refused).toMatchObject({ code: 1, stderr: expect.stringContaining('others may write to /tmp') });
    } finally {
      await open[Symbol.asyncDispose]();
    }
  });
});

const NO_UPDATES = { DISABLE_AUTOUPDATER: '1', CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1' };
const isTheirs = (name: string): boolean =>
  /^(Bash|Read|Edit|Write|NotebookEdit|Glob|Grep|Web\w+)$|^(bash|read|edit|write|list|glob|grep|patch|webfetch)$|shell|exec_command|write_stdin|view_image|web_search|web_fetch|read_file|write_file|replace|list_directory|^glob$|grep_search/.test(
    name,
  ) && !/ringfence/.test(name);

/** How each real program is brought before the scripted model, without an account. */
const STARTS: Readonly<Record<AgentName, (model: ScriptedModel) => { words: string[]; env: Record<string, string> }>> =
  {
    claude: ({ url }) => ({
      words: ['-p', 'hello'],
      env: { ANTHROPIC_BASE_URL: url, ANTHROPIC_API_KEY: 'none', ...NO_UPDATES },
    }),
    codex: ({ url }) => ({
      words: [
        ...['-c', 'model_provider="m"', '-c', 'model="x"'],
        ...['-c', `model_providers.m={name="m",base_url="${url}/v1",wire_api="responses",env_key="MODEL_KEY"}`],
        ...['exec', '--skip-git-repo-check', 'hello'],
      ],
      env: { MODEL_KEY: 'none' },
    }),
    gemini: ({ url }) => {
      mkdirSync(join(home, '.gemini'), { recursive: true });
      writeFileSync(join(home, '.gemini/settings.json'), '{"security":{"auth":{"selectedType":"gemini-api-key"}}}');
      const env = { GEMINI_API_KEY: 'none', GOOGLE_GEMINI_BASE_URL: url, GEMINI_CLI_TRUST_WORKSPACE: 'true' };
      return { words: ['--approval-mode', 'yolo', '-p', 'hello'], env };
    },
    opencode: ({ url }) => {
      const options = { baseURL: `${url}/v1`, apiKey: 'none' };
      const provider = { m: { npm: '@ai-sdk/openai-compatible', options, models: { x: { name: 'x' } } } };
      const config = { model: 'm/x', small_model: 'm/x', provider, permission: { bash: 'allow', read: 'allow' } };
      return { words: ['run', 'hello'], env: { OPENCODE_CONFIG_CONTENT: JSON.stringify(config) } };
    },
  };

const runReal = (
  name: AgentName,
  model: ScriptedModel,
  more: readonly string[] = [],
  flags: readonly string[] = [],
) => {
  const { words, env } = STARTS[name](model);
  // Later overrides of Codex replace earlier ones; its subcommand comes last.
  const at = name === 'codex' ? words.indexOf('exec') : 0;
  return wrap([...flags, '--', PROGRAMS[name], ...words.slice(0, at), ...more, ...words.slice(at)], env);
};

const calls = (item: object): Turns => {
  let turn = 0;
  const done = { type: 'message', role: 'assistant', id: 'i', content: [{ type: 'output_text', text: 'DONE' }] };
  return { '/responses': () => responseOf(turn++ === 0 ? item : done) };
};

describe('the real programs (skipped where script/agents has not installed them)', () => {
  test.skipIf(!existsSync(installed)).each(AGENT_NAMES)(
    '%s offers its model the tools of Ringfence, and none of its own for files, programs and the web',
    async (name) => {
      await using model = await startModel();
      const run = await runReal(name, model);
      expect({ ...run, offered: model.offered() }).toMatchObject({ code: 0 });
      expect(model.offered().filter(isTheirs)).toEqual([]);
      expect(model.offered().filter((it) => it.includes('ringfence')).length).toBeGreaterThan(
        name === 'codex' ? 0 : 10,
      );
    },
  );

  test.skipIf(!existsSync(installed)).each(AGENT_NAMES)(
    '%s does the same for good after install --exclusive',
    async (name) => {
      await using model = await startModel();
      const { words, env } = STARTS[name](model);
      const around = { PATH: process.env.PATH ?? '', HOME: home, ...env };
      const flags = ['install', '--client', name, '--exclusive', '--yes', '--socket', daemon.socket];
      expect(await runCli(daemon, flags, { env: around })).toMatchObject({ code: 0 });
      const child = spawn(PROGRAMS[name], words, { cwd: daemon.workspace, env: around, stdio: 'ignore' });
      expect(await endOf(child)).toBe(0);
      expect(model.offered().filter(isTheirs)).toEqual([]);
      // Claude Code names tools of servers in its prompt and lets the model search for them.
      expect(model.requests.some((it) => /ringfence_*file_read|"file_read"/.test(it))).toBe(true);
      expect(await runCli(daemon, [...flags, '--undo'], { env: around })).toMatchObject({ code: 0 });
    },
  );

  test.skipIf(!existsSync(installed))(
    'codex exec refuses its own patch tool, which no setting switches off',
    async () => {
      const patch = '*** Begin Patch\n*** Add File: patched.txt\n+gone past\n*** End Patch\n';
      const item = { type: 'custom_tool_call', id: 'c', call_id: 'c1', name: 'apply_patch', input: patch };
      await using model = await startModel(calls(item));
      const run = await runReal('codex', model, ['-c', 'model="gpt-5.5"']);
      expect(model.offered()).toContain('apply_patch');
      expect(model.requests.at(-1)).toMatch(/read-only|rejected|denied/i);
      expect(run.code).toBe(0);
      expect(existsSync(join(daemon.workspace, 'patched.txt'))).toBe(false);
    },
  );

  test.skipIf(!existsSync(installed))(
    'codex exec calls the tools of Ringfence with --trust, and without asks, and so gets none',
    async () => {
      const item = {
        type: 'function_call',
        id: 'f',
        call_id: 'f1',
        namespace: 'mcp__ringfence',
        name: 'file_write',
        arguments: JSON.stringify({ path: 'by-codex.txt', content: 'hello' }),
      };
      await using model = await startModel(calls(item));
      const asking = await runReal('codex', model);
      expect(asking.code).toBe(0);
      expect(model.requests.at(-1)).toContain('requires approval');
      expect(existsSync(join(daemon.workspace, 'by-codex.txt'))).toBe(false);
      await using again = await startModel(calls(item));
      expect(await runReal('codex', again, [], ['--trust'])).toMatchObject({ code: 0 });
      expect(again.requests.at(-1)).toContain('created by-codex.txt');
      expect(existsSync(join(daemon.workspace, 'by-codex.txt'))).toBe(true);
    },
  );

  test.skipIf(!existsSync(installed))('opencode: a project that allows its own tools changes nothing', async () => {
    const path = join(daemon.workspace, 'opencode.json');
    writeFileSync(path, JSON.stringify({ permission: { bash: 'allow', '*': 'allow' }, tools: { bash: true } }));
    await using model = await startModel();
    expect(await runReal('opencode', model)).toMatchObject({ code: 0 });
    expect(model.offered().filter(isTheirs)).toEqual([]);
  });
});
