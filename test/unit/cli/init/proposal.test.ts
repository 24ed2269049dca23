import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { findProjectTools } from '../../../../src/cli/init/project.ts';
import { withProject, withSettings } from '../../../../src/cli/init/proposal.ts';
import { parsePolicy } from '../../../../src/policy/load.ts';

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
  withProject(before, { tools: toolsOf(files), toolchains: [] });

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
  ])('of %s gives a policy that is taken, its examples too', (name, files) => {
    const text = policyOf(files);
    expect(parsePolicy(text, 'policy.yaml').rules.map((it) => it.id)).toContain(`project-${name}`);
    expect(text).not.toMatch(/deploy|release/);
  });

  test('without anything that is known leaves the policy as it is by default', () => {
    expect(parse(policyOf({ 'a.txt': '' }))).toEqual({ version: 1, extends: 'default' });
  });

  test('that lies about itself gets no rule of its choosing', () => {
    const scripts = { 'test]\n- evil': 'x', 'build:$(x)': 'y', test: 'z' };
    const { rules } = parse(policyOf({ 'package.json': JSON.stringify({ scripts }) })) as { rules: object[] };
    expect(rules).toHaveLength(1);
    expect(JSON.stringify(rules)).not.toMatch(/evil|\$\(/);
    expect(policyOf({ 'package.json': 'no JSON' })).toContain('registry.npmjs.org');
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
    network: { allow: ['registry.npmjs.org', 'proxy.golang.org', 'sum.golang.org'] },
  });
  expect(policyOf(files, once)).toBe(once);
});

test.each(['tiers: { execute: { network: none } }\n', 'rules: x\n', 'a: [\n'])(
  '%j is refused and not overwritten',
  (before) => {
    expect(() => policyOf({ 'package.json': '{"scripts":{"test":""}}' }, before)).toThrow(
      /is `"none"`|is not a list|not YAML/,
    );
  },
);

test('toolchains are added to those of the config, once', () => {
  const toolchains = [{ path: '/opt/node', manager: 'nvm' }];
  const text = withSettings('toolchains: [ /opt/java ] # mine\n', { tools: [], toolchains }, 'policy.yaml');
  expect(parse(text)).toEqual({ toolchains: ['/opt/java', '/opt/node'], policy: 'policy.yaml' });
  expect(withSettings(text, { tools: [], toolchains }, 'policy.yaml')).toBe(text);
});
