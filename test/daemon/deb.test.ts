/** The Debian package: what script/deb puts into it, and that the program runs from where it was unpacked. */
import { execFile, execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { gunzipSync } from 'node:zlib';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { unitFiles } from '../../src/cli/service/units.ts';
import { removeTree, repository, temporaryDir } from '../support/daemon.ts';

const run = promisify(execFile);
const isInstalled = (program: string): boolean =>
  (process.env.PATH ?? '').split(delimiter).some((it) => existsSync(join(it, program)));
const canBuild = isInstalled('dpkg-deb');
if (!canBuild) console.warn('skipped: the Debian package, since there is no dpkg-deb');

const folder = temporaryDir('deb');
const unpacked = join(folder, 'unpacked');
const inTree = (path: string) => join(unpacked, path);
let deb = '';
beforeAll(async () => {
  if (!canBuild) return;
  const { stdout } = await run(join(repository, 'script/deb'), [folder]);
  deb = stdout.trim();
  execFileSync('dpkg-deb', ['-x', deb, unpacked]);
}, 300_000);
afterAll(() => removeTree(folder));

test.runIf(canBuild)('the package says what it needs', () => {
  const info = execFileSync('dpkg-deb', ['--info', deb], { encoding: 'utf8' });
  const { version } = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8'));
  expect(info).toContain(`Version: ${version}\n`);
  // It brings its own.
  expect(info).not.toContain('nodejs');
  expect(info).toContain('bubblewrap');
});

test.runIf(canBuild)('each file of the package belongs to root, only root may write it, and none is setuid', () => {
  const lines = execFileSync('dpkg-deb', ['--contents', deb], { encoding: 'utf8', maxBuffer: 2 ** 26 }).trim();
  const wrong = lines.split('\n').filter((it) => !/^(l|[-d]rwxr-xr-x|-rw-r--r--)\S* root\/root /.test(it));
  expect(wrong).toEqual([]);
  expect(lines).not.toMatch(/ \.\/usr\/lib\/ringfence\/(src|test|node_modules\/vitest)\//);
});

test.runIf(canBuild)(
  'units, completions, the man page and the AppArmor profile are where Debian looks for them',
  () => {
    const program = '/usr/lib/ringfence/bin/ringfenced.js';
    for (const scope of ['user', 'system'] as const) {
      const units = unitFiles({
        scope,
        node: `/usr/lib/ringfence/node_modules/node-linux-${process.arch}/bin/node`,
        program,
      });
      for (const [name, text] of units)
        expect(readFileSync(inTree(`usr/lib/systemd/${scope}/${name}`), 'utf8')).toBe(text);
    }
    expect(readFileSync(inTree('usr/share/bash-completion/completions/ringfence'), 'utf8')).toContain(
      'complete -o default',
    );
    expect(readFileSync(inTree('usr/share/zsh/vendor-completions/_ringfence'), 'utf8')).toMatch(/^#compdef ringfence/);
    expect(existsSync(inTree('usr/share/fish/vendor_completions.d/ringfence.fish'))).toBe(true);
    expect(existsSync(inTree('usr/lib/ringfence/etc/apparmor.d/bwrap'))).toBe(true);
    expect(readFileSync(inTree('usr/share/doc/ringfence/copyright'), 'utf8')).toContain('Apache License');
  },
);

test.runIf(canBuild && isInstalled('man'))(
  'the man page has each verb, and `man` has nothing to say against it',
  async () => {
    const page = inTree('usr/share/man/man1/ringfence.1.gz');
    const { stderr } = await run('man', ['--warnings', '-E', 'UTF-8', '-l', '-Tutf8', page], {
      env: { ...process.env, MANWIDTH: '100' },
    });
    expect(stderr).toBe('');
    const text = gunzipSync(readFileSync(page)).toString();
    const verbs = readFileSync(join(repository, 'docs/verbs.md'), 'utf8').match(/^## .*/gm) ?? [];
    expect(verbs.length).toBeGreaterThan(30);
    for (const it of verbs) expect(text).toContain(`\n.SS ${it.slice(3).replaceAll('-', '\\-')}`);
  },
);

test.runIf(canBuild)(
  'the program runs from the package, and knows what this machine can confine',
  async () => {
    const home = mkdtempSync(join(folder, 'home-'));
    const env = { PATH: process.env.PATH ?? '', HOME: home };
    const program = inTree('usr/bin/ringfence');
    const { version } = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8'));
    expect((await run(program, ['--version'], { env, cwd: home })).stdout).toContain(version);
    const doctor = run(program, ['doctor', '--json'], { env, cwd: home });
    // Exit code 1: this machine lacks something, which is told all the same.
    const { stdout } = await doctor.catch((error: { stdout: string }) => error);
    expect(JSON.parse(stdout)).toMatchObject({ level: expect.stringMatching(/^[AB]$/) });
  },
  60_000,
);

test.runIf(canBuild && isInstalled('lintian'))(
  'lintian finds no error',
  async () => {
    const { stdout } = await run('lintian', ['--fail-on', 'none', deb]);
    // What npm packages bring is theirs: prebuilt programs, and files without a page.
    const OURS = /^E: ringfence: (?!embedded-|statically-linked-|unstripped-|binary-|arch-|shared-library-)/;
    expect(stdout.split('\n').filter((it) => OURS.test(it) && !it.includes('node_modules'))).toEqual([]);
  },
  120_000,
);
