/** `tool|plugin|connector new`: what they write passes its own test where the package is installed. */
import { execFile } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runCli } from '../support/cli.ts';
import { removeTree, ringfence, temporaryDir } from '../support/daemon.ts';
import { installPackage } from '../support/installed-package.ts';

const run = promisify(execFile);
const KINDS = ['tool', 'plugin', 'connector'];
let folder: string;
let program = ringfence;

beforeAll(() => {
  folder = temporaryDir('skeletons');
  // Below node_modules of the folder, as in a project.
  installPackage(folder);
  program = join(folder, 'node_modules/ringfence/bin/ringfence.js');
});
afterAll(() => removeTree(folder));

const cli = (args: string[], cwd = folder) => run(process.execPath, [program, ...args], { cwd });

test.each(KINDS)('%s new writes a folder whose test passes, and that can be added', async (kind) => {
  const name = `my_${kind}`;
  const { stdout } = await cli([kind, 'new', name, '--json']);
  const { files } = JSON.parse(stdout) as { files: string[] };
  expect(files).toEqual(expect.arrayContaining(['package.json', `test/${name}.test.js`]));
  for (const it of files) expect(readFileSync(join(folder, name, it), 'utf8')).not.toMatch(/__(name|version)__/);
  const manifest = JSON.parse(readFileSync(join(folder, name, 'package.json'), 'utf8')) as { keywords: string[] };
  expect(manifest.keywords).toEqual([kind === 'connector' ? 'ringfence-connector' : 'ringfence-plugin']);
  const tested = await run(process.execPath, ['--test', '--test-reporter=tap'], { cwd: join(folder, name) });
  expect(tested.stdout).toMatch(/^# fail 0$/m);
  expect(tested.stdout).toMatch(/^# pass [3-9]$/m);
  const added =
    kind === 'connector' ? ['connector', 'check', `${name}/connector.yaml`] : ['plugin', 'check', `${name}/plugin`];
  expect((await cli(added)).stdout).toContain(`${name}__`);
});

const place = { stateDir: '/nonexistent', socket: '/nonexistent', workspace: '' };

test.each(['', '..', '../up', 'a/b', 'Upper', 'a__b', '_a', 'a_', '1a', 'a'.repeat(25), '.hidden', 'a b'])(
  'the name %j is refused, and nothing is written',
  async (name) => {
    const cwd = temporaryDir('skeletons');
    const { code, stderr } = await runCli(place, ['plugin', 'new', '--', name], { cwd });
    expect([code, readdirSync(cwd)]).toEqual([2, []]);
    expect(stderr).toContain('24 characters at most');
    removeTree(cwd);
  },
);

test('an existing path is not overwritten: a folder, an empty one, a file, a link to nowhere', async () => {
  const cwd = temporaryDir('skeletons');
  mkdirSync(join(cwd, 'full'));
  writeFileSync(join(cwd, 'full/package.json'), 'mine');
  mkdirSync(join(cwd, 'empty'));
  writeFileSync(join(cwd, 'file'), 'mine');
  symlinkSync(join(cwd, 'nowhere'), join(cwd, 'link'));
  for (const name of ['full', 'empty', 'file', 'link']) {
    const { code, stderr } = await runCli(place, ['tool', 'new', name], { cwd });
    expect(code).toBe(1);
    expect(stderr).toContain(`${name} is there already; nothing was changed`);
  }
  expect(readdirSync(cwd, { recursive: true, encoding: 'utf8' }).sort()).toEqual([
    'empty',
    'file',
    'full',
    'full/package.json',
    'link',
  ]);
  removeTree(cwd);
});
