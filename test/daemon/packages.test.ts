/** The package: its content, its metadata, and where its dependencies may be installed. */
import { execFile } from 'node:child_process';
import { cpSync, existsSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join, normalize } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { NATIVE_PROGRAMS } from '../../src/base/native-programs.ts';
import { NODE_MIN } from '../../src/base/runtime.ts';
import { repository, temporaryDir } from '../support/daemon.ts';

const run = promisify(execFile);

function copySources(folder: string): void {
  for (const it of ['bin', 'etc', 'src', 'workers', 'policies', 'package.json'])
    cpSync(join(repository, it), join(folder, it), { recursive: true });
  symlinkSync(join(repository, 'node_modules'), join(folder, 'node_modules'));
}

test('hosts start where node_modules is a link', async () => {
  const folder = temporaryDir('packages');
  const [workspace, state] = [temporaryDir('ws'), temporaryDir('state')];
  const ringfence = (...args: string[]) =>
    run(process.execPath, [join(folder, 'bin/ringfence.js'), ...args, '--state', state]);
  try {
    copySources(folder);
    cpSync(join(repository, 'dist/native'), join(folder, 'dist/native'), { recursive: true });
    writeFileSync(join(workspace, 'a.txt'), 'read\n');
    const { stdout } = await ringfence('call', 'file_read', 'path=a.txt', '--workspace', workspace);
    expect(stdout).toBe('read\n');
  } finally {
    await ringfence('stop').catch(() => {}); // No daemon started.
    for (const it of [folder, workspace, state]) rmSync(it, { recursive: true, force: true });
  }
});

test('without the native programs of this architecture nothing runs, and it says what to do', async () => {
  const folder = temporaryDir('packages');
  const workspace = temporaryDir('ws');
  try {
    copySources(folder);
    const program = join(folder, 'bin/ringfence.js');
    const doctor = run(process.execPath, [program, 'doctor', '--json', '--workspace', workspace]);
    const { stdout } = await doctor.catch((error: { stdout: string }) => error);
    expect(stdout).toMatch(/native\/\w+\/door.*can't be found.*script\/bootstrap/);
  } finally {
    for (const it of [folder, workspace]) rmSync(it, { recursive: true, force: true });
  }
});

const manifest = JSON.parse(readFileSync(join(repository, 'package.json'), 'utf8'));
/** Makes Node report an old version. */
const OLD =
  'data:text/javascript,Object.defineProperty(process, "versions", { value: { ...process.versions, node: "20.0.0" } })';

/** Makes Node report a Mac. */
const MAC = 'data:text/javascript,Object.defineProperty(process, "platform", { value: "darwin" })';

test('the package says what it is, where it comes from and where it runs', () => {
  const {
    os,
    cpu,
    repository: { url },
    homepage,
    bugs,
    keywords,
    engines,
  } = manifest;
  expect({ os, cpu, engines }).toEqual({ os: ['linux'], cpu: ['x64', 'arm64'], engines: { node: '>=20' } });
  expect(url).toMatch(/^git\+https:/);
  expect([homepage, bugs.url].every((it) => it.startsWith(url.slice('git+'.length, -'.git'.length)))).toBe(true);
  expect(keywords).toEqual(expect.arrayContaining(['mcp', 'sandbox']));
});

test('an old Node is told in one sentence what is needed, and another system which package to install', async () => {
  const folder = temporaryDir('old');
  try {
    // As installed, without sources, which only a checkout has.
    for (const it of ['bin', 'package.json']) cpSync(join(repository, it), join(folder, it), { recursive: true });
    const as = (lie: string) => run(process.execPath, ['--import', lie, 'bin/ringfence.js', 'status'], { cwd: folder });
    await expect(as(OLD)).rejects.toMatchObject({
      code: 78,
      stdout: '',
      stderr: `ringfence needs Node.js ${NODE_MIN} or newer; this is v20.0.0 (${process.execPath}). ${join(folder, 'bin/ringfence')} starts it with a Node of its own.\n`,
    });
    await expect(as(MAC)).rejects.toMatchObject({
      code: 78,
      stdout: '',
      stderr: expect.stringMatching(/^ringfence needs Linux, and this is darwin; install .*`ringfence-client`.*\n$/),
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test('the package contains each file that its README and documents point to', async () => {
  const { stdout } = await run('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
    cwd: repository,
    maxBuffer: 64 * 1024 * 1024,
  });
  const [{ files }] = JSON.parse(stdout) as [{ files: { path: string }[] }];
  const packed = files.map((it) => it.path);
  const texts = packed.filter((it) => it.endsWith('.md'));
  expect(texts).toEqual(expect.arrayContaining(['README.md', 'docs/protocol.md', 'CHANGELOG.md']));
  expect(packed).toEqual(expect.arrayContaining(NATIVE_PROGRAMS.map((it) => `dist/native/${process.arch}/${it}`)));
  const missing = texts.flatMap((file) =>
    [...readFileSync(join(repository, file), 'utf8').matchAll(/\]\(((?!https?:|#)[^)#\s]+)/g)]
      .map(([, target]) => normalize(join(file, '..', target as string)))
      .filter((target) => !packed.some((it) => it === target || it.startsWith(`${target}/`)))
      .map((target) => `${file}: ${target}${existsSync(join(repository, target)) ? '' : ' (nowhere)'}`),
  );
  expect(missing).toEqual([]);
});
