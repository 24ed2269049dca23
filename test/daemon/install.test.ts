/** `ringfence install` on real files in a temporary home; the client programs are not needed. */
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parse as parseToml } from 'smol-toml';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ringfence, temporaryDir } from '../support/daemon.ts';

const home = temporaryDir('home');
const project = join(home, 'project');
const bin = join(home, 'bin');
beforeAll(() => {
  for (const it of [project, bin]) mkdirSync(it);
});
afterAll(() => rmSync(home, { recursive: true, force: true }));

/** Runs without a terminal, and without --yes. */
function run(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [ringfence, 'install', ...args], {
    cwd: project,
    env: { PATH: bin, HOME: home, RINGFENCE_STATE: join(home, 'state') },
    encoding: 'utf8',
  });
  return { status, stdout, stderr };
}
const install = (...args: string[]) => run(...args, '--yes');

test.each([
  ['claude', 'project', 'project/.mcp.json', ['mcpServers']],
  ['claude', 'user', '.claude.json', ['mcpServers']],
  ['gemini', 'user', '.gemini/settings.json', ['mcpServers']],
  ['opencode', 'user', '.config/opencode/opencode.jsonc', ['mcp']],
  ['cursor', 'project', 'project/.cursor/mcp.json', ['mcpServers']],
  ['vscode', 'project', 'project/.vscode/mcp.json', ['servers']],
  ['zed', 'user', '.config/zed/settings.json', ['context_servers']],
] as const)(
  '%s, %s: the entry starts this program, a second install changes nothing, undo leaves no file',
  (client, scope, file, [list]) => {
    const path = join(home, file);
    const shown = install('--client', client, '--scope', scope, '--print');
    expect(shown).toMatchObject({ status: 0, stdout: expect.stringContaining('+    "ringfence": {') });
    expect(existsSync(path)).toBe(false);
    expect(install('--client', client, '--scope', scope)).toMatchObject({ status: 0, stdout: shown.stdout });
    const { ringfence: entry } = JSON.parse(readFileSync(path, 'utf8'))[list];
    expect([entry.command, entry.args].flat()).toEqual(expect.arrayContaining([process.execPath, ringfence, 'mcp']));
    expect(install('--client', client, '--scope', scope).stdout).toMatch(/already has Ringfence/);
    expect(install('--client', client, '--scope', scope, '--undo').status).toBe(0);
    expect(existsSync(path)).toBe(false);
  },
);

test('undo brings back every byte, mode and link of a file, and takes out only the entry of one that was changed since', () => {
  const real = join(home, 'codex.toml');
  const before = '# mine\n[mcp_servers.other]\ncommand = "o"   # keep\n\n\n';
  writeFileSync(real, before);
  chmodSync(real, 0o662); // A mode that no umask gives.
  mkdirSync(join(home, '.codex'));
  symlinkSync(real, join(home, '.codex/config.toml'));
  expect(install('--client', 'codex').status).toBe(0);
  expect(readFileSync(real, 'utf8')).toContain('supports_parallel_tool_calls = true');
  expect(install('--client', 'codex', '--undo').status).toBe(0);
  expect(readFileSync(real, 'utf8')).toBe(before);
  expect(statSync(real).mode & 0o777).toBe(0o662);

  install('--client', 'codex');
  writeFileSync(real, `${readFileSync(real, 'utf8')}\n[late]\na = 1\n`);
  expect(install('--client', 'codex', '--undo').status).toBe(0);
  expect(readFileSync(real, 'utf8')).toMatch(
    /^# mine\n\[mcp_servers.other\]\ncommand = "o" {3}# keep\n\n+\[late\]\na = 1\n$/,
  );
});

test('a file that can not be read is left alone, with its name and the reason', () => {
  const path = join(project, '.mcp.json');
  writeFileSync(path, '{"mcpServers": ');
  expect(install('--client', 'claude', '--scope', 'project')).toMatchObject({
    status: 1,
    stderr: expect.stringMatching(/can't change .*\/\.mcp\.json: the file is not JSON/),
  });
  expect(readFileSync(path, 'utf8')).toBe('{"mcpServers": ');
});

test('a file that is not UTF-8 is left as it is, since no undo could bring its bytes back', () => {
  const path = join(project, '.mcp.json');
  const bytes = Buffer.from('{"mcpServers":{"a":"\xff"}}', 'latin1');
  writeFileSync(path, bytes);
  expect(install('--client', 'claude', '--scope', 'project')).toMatchObject({
    status: 1,
    stderr: expect.stringContaining(`can't read ${path}: the file is not UTF-8`),
  });
  expect(readFileSync(path)).toEqual(bytes);
  rmSync(path);
});

test('a backup for undo that was changed is reported by its name', () => {
  const path = join(home, 'state/installs.json');
  mkdirSync(join(home, 'state'), { recursive: true });
  writeFileSync(path, 'bad');
  expect(install('--client', 'cursor', '--print')).toMatchObject({ status: 1, stderr: expect.stringContaining(path) });
  rmSync(path);
});

test('a program on PATH is configured by its name, with the state directory', () => {
  symlinkSync(ringfence, join(bin, 'ringfence'));
  const { stdout } = install('--client', 'gemini', '--state', join(home, 'other'), '--print');
  expect(stdout).toMatch(/"command": "ringfence",/);
  expect(stdout).toContain(`"${join(home, 'other')}"`);
});

test('without a terminal nothing is written unless --yes says so', () => {
  expect(run('--client', 'zed', '--scope', 'project')).toMatchObject({
    status: 2,
    stdout: expect.stringContaining('+'),
    stderr: expect.stringMatching(/nothing was changed.*--yes/),
  });
  expect(existsSync(join(project, '.zed'))).toBe(false);
});

test('claude changes its own file itself, where it is there', () => {
  // Stands in for a program that is not installed; the real one was tried by hand (docs/how-to/mcp-clients.md).
  writeFileSync(join(bin, 'claude'), '#!/bin/sh\nprintf "%s|" "$@"\n', { mode: 0o755 });
  const { stdout, status } = install('--client', 'claude', '--scope', 'user');
  expect(status).toBe(0);
  expect(stdout).toContain('mcp|add|-s|user|ringfence|--|ringfence|mcp|');
  expect(existsSync(join(home, '.claude.json'))).toBe(false);
  const told = install('--client', 'claude', '--scope', 'user', '--json').stdout;
  expect(JSON.parse(told)).toMatchObject({ ran: expect.arrayContaining(['claude', 'add']), written: true });
});

test('an unknown client is a usage error that names the known ones', () => {
  expect(install('--client', 'emacs')).toMatchObject({
    status: 2,
    stderr: expect.stringMatching(/claude, codex, gemini/),
  });
});

test('install --json prints what would be written and what was, and nothing but JSON', () => {
  const path = join(home, '.gemini/settings.json');
  mkdirSync(join(home, '.gemini'), { recursive: true });
  const before = '{"theme": "dark"}\n';
  writeFileSync(path, before);
  const shown = run('--client', 'gemini', '--print', '--json');
  expect(shown).toMatchObject({ status: 0, stderr: '' });
  const preview = JSON.parse(shown.stdout);
  expect(preview).toMatchObject({ client: 'gemini', scope: 'user', file: path, before, written: false });
  expect(JSON.parse(preview.after)).toMatchObject({ theme: 'dark', mcpServers: { ringfence: {} } });
  const refused = run('--client', 'gemini', '--json');
  expect(refused.status).toBe(2);
  expect(JSON.stringify(JSON.parse(refused.stdout))).toMatch(/--print/);
  expect(readFileSync(path, 'utf8')).toBe(before);
  expect(JSON.parse(install('--client', 'gemini', '--json').stdout)).toEqual({ ...preview, written: true });
  expect(readFileSync(path, 'utf8')).toBe(preview.after);
  expect(JSON.parse(install('--client', 'gemini', '--json').stdout)).toMatchObject({
    before: preview.after,
    written: false,
  });
  expect(JSON.parse(install('--client', 'gemini', '--undo', '--json').stdout)).toMatchObject({
    after: before,
    written: true,
  });
  rmSync(path);
});

describe('--exclusive also denies the own tools of an agent', () => {
  test('--exclusive denies in the file of the entry, in place of what stands there, and undo brings back every byte', () => {
    const path = join(home, '.codex/config.toml');
    rmSync(path, { force: true });
    const before = 'sandbox_mode = "workspace-write" # mine\n\n[features]\n# goals\ngoals = true\n\n[tui]\na = 1\n';
    writeFileSync(path, before);
    const shown = run('--client', 'codex', '--exclusive', '--print');
    expect(shown).toMatchObject({ status: 0, stdout: expect.stringContaining('-sandbox_mode = "workspace-write"') });
    expect(readFileSync(path, 'utf8')).toBe(before);
    expect(install('--client', 'codex', '--exclusive')).toMatchObject({ status: 0, stdout: shown.stdout });
    const written = readFileSync(path, 'utf8');
    expect(parseToml(written)).toMatchObject({
      sandbox_mode: 'read-only',
      web_search: 'disabled',
      features: { goals: true, shell_tool: false, unified_exec: false },
      tui: { a: 1 },
      mcp_servers: { ringfence: {} },
    });
    expect(written).toContain('# goals');
    expect(install('--client', 'codex', '--exclusive').stdout).toContain('already has these settings');
    expect(install('--client', 'codex', '--exclusive', '--undo').status).toBe(0);
    expect(readFileSync(path, 'utf8')).toBe(before);
  });

  test('a file that was changed since keeps the change, and gets back the values of before', () => {
    const path = join(home, '.codex/config.toml');
    install('--client', 'codex', '--exclusive');
    writeFileSync(path, `${readFileSync(path, 'utf8')}\n[late]\na = 1\n`);
    expect(install('--client', 'codex', '--exclusive', '--undo').status).toBe(0);
    expect(parseToml(readFileSync(path, 'utf8'))).toEqual({
      sandbox_mode: 'workspace-write',
      features: { goals: true },
      tui: { a: 1 },
      late: { a: 1 },
    });
    rmSync(path);
  });

  test('--exclusive denies in a second file if the agent keeps its settings apart, beside what others deny there', () => {
    const [servers, settings] = [join(project, '.mcp.json'), join(project, '.claude/settings.json')];
    mkdirSync(join(project, '.claude'));
    writeFileSync(settings, '{\n\t"permissions": { "deny": ["Bash", "WebFetch(domain:x.org)"] } // mine\n}\n');
    const before = readFileSync(settings, 'utf8');
    const told = JSON.parse(install('--client', 'claude', '--scope', 'project', '--exclusive', '--json').stdout);
    expect(told).toMatchObject({
      exclusive: true,
      written: true,
      files: [{ file: servers }, { file: settings, before }],
    });
    const { deny } = JSON.parse(readFileSync(settings, 'utf8').replace('// mine', '')).permissions;
    expect(deny).toEqual(expect.arrayContaining(['Bash', 'WebFetch(domain:x.org)', 'Write', 'WebSearch']));
    expect(deny.filter((it: string) => it === 'Bash')).toHaveLength(1);
    writeFileSync(settings, readFileSync(settings, 'utf8').replace('"Write"', '"Write", "Mine"'));
    expect(install('--client', 'claude', '--scope', 'project', '--exclusive', '--undo').status).toBe(0);
    expect(existsSync(servers)).toBe(false);
    expect(readFileSync(settings, 'utf8')).toMatch(/"Bash",\s+"WebFetch\(domain:x.org\)",\s+"Mine"\s*\] \} \/\/ mine/);
  });

  test.each([
    ['gemini', '.gemini/settings.json', '{"tools": {"exclude": "all"}}', 'tools.exclude in the file is not a list'],
    ['opencode', '.config/opencode/opencode.jsonc', '{"permission": "ask"}', 'permission in the file is not an object'],
    ['codex', '.codex/config.toml', 'features.goals = true\n', 'has a form that install does not support'],
  ])('%s: a setting in another form is left alone, with its name', (client, file, text, words) => {
    mkdirSync(join(home, dirname(file)), { recursive: true });
    writeFileSync(join(home, file), text);
    const refused = install('--client', client, '--exclusive');
    expect(refused).toMatchObject({ status: 1, stderr: expect.stringContaining(words) });
    expect(readFileSync(join(home, file), 'utf8')).toBe(text);
    rmSync(join(home, file));
  });

  test('--exclusive uses the own command of claude, and its settings in the file', () => {
    const told = JSON.parse(install('--client', 'claude', '--scope', 'user', '--exclusive', '--json').stdout);
    expect(told).toMatchObject({ ran: expect.arrayContaining(['claude', 'add']), written: true });
    expect(told.files).toHaveLength(1);
    expect(readFileSync(join(home, '.claude/settings.json'), 'utf8')).toContain('"WebFetch"');
    expect(install('--client', 'claude', '--scope', 'user', '--exclusive', '--undo').status).toBe(0);
    expect(existsSync(join(home, '.claude/settings.json'))).toBe(false);
  });

  test('a client without such settings is refused with the names of those that have them', () => {
    expect(install('--client', 'zed', '--exclusive')).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('claude, codex, gemini, opencode'),
    });
  });
});
