import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { findProjectTools } from '../../../../src/cli/init/project.ts';
import { withProject, withSettings } from '../../../../src/cli/init/proposal.ts';
import { defaultPolicy, parsePolicy } from '../../../../src/policy/load.ts';

const folders: string[] = [];
afterEach(() => {
  for (const it of folders.splice(0)) rmSync(it, { recursive: true });
});

function toolsOf(files: Record<string, string>) {
  const folder = mkdtempSync(join(tmpdir(), 'ringfence-project-'));
  folders.push(folder);
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  return findProjectTools(folder);
}
const policyOf = (files: Record<string, string>, before?: string) =>
  withProject(before, { tools: toolsOf(files), base: 'default' });

describe('a project', () => {
  test.each([
    ['npm', { 'package.json': '{"scripts":{"test":"x","deploy":"y"}}' }],
    ['pnpm', { 'package.json': '{"scripts":{"test":"x"}}', 'pnpm-lock.yaml': '' }],
    ['yarn', { 'package.json': '{"scripts":{"test":"x"}}', 'yarn.lock': '' }],
    ['uv', { 'pyproject.toml': '[tool.pytest]\n', 'uv.lock': '' }],
    ['pip', { 'requirements.txt': 'ruff\npytest\n' }],
    ['cargo', { 'Cargo.toml': '[package]' }],
    ['go', { 'go.mod': 'module x' }],
    ['make', { Makefile: 'CC := cc\ntest: x\n\techo\nrelease:\n' }],
  ])('a project of %s is recognised, and gives a valid policy without rules of its own', (name, files) => {
    expect(toolsOf(files).map((it) => it.name)).toEqual([name]);
    expect(parsePolicy(policyOf(files), 'policy.yaml').rules).toEqual(defaultPolicy.rules);
  });

  test('without anything that is known leaves the policy as it is by default', () => {
    expect(parse(policyOf({ 'a.txt': '' }))).toEqual({ version: 1, extends: 'default' });
  });
});

test('init keeps the rules and comments of a policy, and changes nothing the second time', () => {
  const before = `# mine
version: 1
extends: default
rules:
  # my rule
  - id: mine
    match: { command: [ls] }
    decision: deny
    reason: no
tiers:
  execute: { decision: ask, timeoutMs: 5000, network: { allow: [ registry.npmjs.org ] } }
`;
  const files = { 'package.json': '{"scripts":{"test":"x"}}', 'go.mod': '' };
  const once = policyOf(files, before);
  expect(once).toMatch(/# mine[\s\S]*# my rule/);
  const { tiers } = parse(once) as { tiers: { execute: Record<string, unknown> } };
  expect(tiers.execute).toMatchObject({
    timeoutMs: 5000,
    network: { allow: ['registry.npmjs.org'] },
    processes: 512,
  });
  expect(policyOf(files, once)).toBe(once);
});

test('a file that is not as it should be is refused and not overwritten', () => {
  expect(() => policyOf({ 'package.json': '{}' }, 'a: [\n')).toThrow(/not YAML/);
  const project = { tools: [], toolchains: [], pinned: [{ path: '/n', manager: 'nvm' }], workspace: '/w' };
  for (const before of ['projects: none\n', 'projects: [{ workspace: /w, toolchains: none }]\n'])
    expect(() => withSettings(before, project, 'policy.yaml'), before).toThrow(/is not a list/);
});

test('toolchains are added to those of the config, once', () => {
  const toolchains = [{ path: '/opt/node', manager: 'nvm' }];
  const tools = [{ name: 'npm', evidence: 'package.json', hosts: ['registry.npmjs.org'] }];
  const proposed = { toolchains, tools, pinned: [{ path: '/opt/node18', manager: 'nvm' }], workspace: '/w' };
  const text = withSettings('toolchains: [ /opt/java ] # mine\n', proposed, 'policy.yaml');
  expect(parse(text)).toEqual({
    toolchains: ['/opt/java', '/opt/node'],
    projects: [{ workspace: '/w', hosts: ['registry.npmjs.org'], toolchains: ['/opt/node18'] }],
    policy: 'policy.yaml',
  });
  expect(withSettings(text, proposed, 'policy.yaml')).toBe(text);
});
