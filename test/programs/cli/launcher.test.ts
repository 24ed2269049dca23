/** The programs of bin/ that people start: one process, on the Node that the checkout brings. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import manifest from '../../../package.json' with { type: 'json' };
import { repository, temporaryDir } from '../../support/daemon.ts';

const folder = temporaryDir('launcher');
afterAll(() => rmSync(folder, { recursive: true, force: true }));
/** A Node in PATH that nobody may start. */
const others = join(folder, 'others');
mkdirSync(others);
writeFileSync(join(others, 'node'), '#!/bin/sh\necho "the wrong Node" >&2\nexit 9\n', { mode: 0o755 });

const run = (program: string, ...words: string[]) =>
  spawnSync(program, words, { encoding: 'utf8', env: { PATH: `${others}:/usr/bin:/bin`, HOME: folder } });

describe('ringfence', () => {
  test.each(Object.values(manifest.bin))('%s starts on its own Node, whatever is in PATH', (path) => {
    const words = path.endsWith('-sh') ? ['--help'] : ['--version'];
    expect(run(join(repository, path), ...words)).toMatchObject({
      status: 0,
      stderr: '',
      stdout: expect.stringMatching(path.endsWith('-sh') ? /ringfence sh/ : manifest.version),
    });
  });

  test('ringfenced says in one line which flag it does not know', () => {
    expect(run(join(repository, 'bin/ringfenced'), '--policies')).toMatchObject({
      status: 2,
      stdout: '',
      stderr: "ringfenced: Unknown option '--policies'; `ringfence serve --help` explains its flags\n",
    });
  });

  test('ringfence runs by a link with another name', () => {
    const link = join(folder, 'rf');
    symlinkSync(join(repository, 'bin/ringfence'), link);
    expect(run(link, '--version')).toMatchObject({ status: 0, stdout: `${manifest.version}\n` });
  });

  test('ringfence is one process: the shell that starts it becomes Node', () => {
    const loader = join(folder, 'pid.mjs');
    writeFileSync(loader, 'console.log(process.pid, process.ppid);');
    const { stdout } = spawnSync('/bin/sh', ['-c', `echo $$; exec ${join(repository, 'bin/ringfence')} --version`], {
      encoding: 'utf8',
      env: { PATH: '/usr/bin:/bin', HOME: folder, NODE_OPTIONS: `--import=${loader}` },
    });
    const [shell, node] = stdout.split('\n') as [string, string];
    expect(node.split(' ')[0]).toBe(shell);
  });
});
