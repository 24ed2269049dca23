import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { parseCommand } from '../../../../src/policy/shell/command.ts';
import { createProgramResolver, fingerprint } from '../../../../src/policy/shell/programs.ts';

const workspace = realpathSync(mkdtempSync(join(tmpdir(), 'programs-')));
afterAll(() => rmSync(workspace, { recursive: true }));
const at = (name: string) => join(workspace, name);
mkdirSync(at('bin'));
mkdirSync(at('sub'));
writeFileSync(at('bin/tool'), '#!/bin/sh\n', { mode: 0o755 });
writeFileSync(at('bin/data'), '', { mode: 0o644 });
symlinkSync('/bin/sh', at('bin/harmless'));
symlinkSync('tool', at('bin/link'));
symlinkSync('loop', at('bin/loop'));

const resolve = createProgramResolver();
const where = { workspace, cwd: workspace };
const withBin = { ...where, path: `${at('bin')}:/usr/bin:/bin` };
const programOf = (text: string, path?: string) =>
  parseCommand(text, {
    workspace,
    cwd: workspace,
    home: '/home/person',
    resolve: (name) => resolve(name, { ...where, path }),
  }).commands[0]?.program;

describe('a name', () => {
  test('a name is looked for in the folders of the system', () => {
    expect(resolve('sh', where)).toBe(realpathSync('/bin/sh'));
  });
  test('a name is looked for in the folders of the caller, in their order', () => {
    expect(resolve('tool', withBin)).toBe(at('bin/tool'));
    expect(resolve('tool', where)).toBeUndefined();
  });
  test('a name with a slash counts from the directory of the command', () => {
    expect(resolve('./tool', { ...where, cwd: at('bin') })).toBe(at('bin/tool'));
    expect(resolve('../bin/tool', { ...where, cwd: at('sub') })).toBe(at('bin/tool'));
    expect(resolve('./tool', where)).toBeUndefined();
  });
  test("a name in an empty folder of PATH counts from the command's directory too", () => {
    expect(resolve('tool', { workspace, cwd: at('bin'), path: '/nowhere::/usr/bin' })).toBe(at('bin/tool'));
  });
  test.each(['data', 'loop', 'nothing', '', 'tool\0', 'x'.repeat(5000), 'tool/x'])('%j is no program', (name) => {
    expect(resolve(name, withBin)).toBeUndefined();
  });
  test('a name is found behind entries of PATH that are not folders', () => {
    expect(resolve('tool', { ...where, path: `${at('bin/data')}:/nowhere:${at('bin')}` })).toBe(at('bin/tool'));
  });
});

describe('the name of a program in rules', () => {
  test('a program has the name it was called by if the system has it by that name', () => {
    expect(programOf('sh -c true')).toBe('sh');
    expect(programOf('/bin/sh -c true')).toBe('sh');
  });
  test('a program of the workspace has no name in rules, even if it is a link into the system', () => {
    expect(programOf('./bin/tool')).toBeUndefined();
    expect(programOf('tool', withBin.path)).toBeUndefined();
    expect(programOf('./bin/harmless -c true')).toBeUndefined();
    expect(programOf('harmless', withBin.path)).toBeUndefined();
  });
  test('a file of the workspace that PATH does not lead to does not change the name of a program', () => {
    writeFileSync(at('cat'), '#!/bin/sh\n', { mode: 0o755 });
    expect(programOf('cat x')).toBe('cat');
    expect(programOf('./cat x')).toBeUndefined();
  });
});

describe('a fingerprint', () => {
  test('changes with the content, the time and the rights of a file, and not without', () => {
    const file = at('bin/tool');
    const before = fingerprint(file);
    expect(fingerprint(file)).toEqual(before);
    writeFileSync(file, '#!/bin/sh\n:\n');
    const written = fingerprint(file);
    expect(written).not.toEqual(before);
    utimesSync(file, 1, 1);
    const touched = fingerprint(file);
    expect(touched).not.toEqual(written);
    chmodSync(file, 0o700);
    expect(fingerprint(file)?.ctimeNs).not.toBe(before?.ctimeNs);
  });
  test('holds text only, so that it can be stored', () => {
    const it = fingerprint(at('bin/tool'));
    expect(JSON.parse(JSON.stringify(it))).toEqual(it);
  });
  test('the fingerprint of a missing file is undefined', () => {
    expect(fingerprint(at('none'))).toBeUndefined();
    expect(fingerprint(at('bin/tool/x'))).toBeUndefined();
  });
});
