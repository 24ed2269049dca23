/** `ringfence vm`: what it gives to Lima and launchd. No Mac and no Lima is here: their programs are played by one that notes its words. */
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { parse } from 'yaml';
import { version } from '../../../src/base/runtime.ts';
import { plist } from '../../../src/cli/vm/launchd.ts';
import { MACHINE, PROVISION, templateOf } from '../../../src/cli/vm/machine.ts';
import { findUserDirs } from '../../../src/daemon/user-dirs.ts';
import { repository, temporaryDir } from '../../support/daemon.ts';

let home: string;
beforeEach(() => {
  home = temporaryDir('mac');
  mkdirSync(join(home, 'bin'));
  mkdirSync(join(home, 'projects/shop'), { recursive: true });
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

const MAC = 'data:text/javascript,Object.defineProperty(process, "platform", { value: "darwin" })';

/** Runs `ringfence vm` of the client's package; gives its exit code, its standard error, and the words that Lima got. */
function vm(words: readonly string[], listed: object[] = []) {
  const log = join(home, 'words');
  rmSync(log, { force: true });
  const lima = `#!/bin/sh
printf '%s\\n' "$(printf '%s ' "$@" | sed 's/ $//')" >>${log}
case "$*" in
  'list --json') ${listed.map((it) => `printf '%s\\n' '${JSON.stringify(it)}'`).join('; ') || ':'} ;;
  *'workspace list --json') echo '[{"path":"/gone","from":"ringfence workspace add"}]' ;;
  *'service status'*) echo '{"installed":false}' ;;
  *operator.token*) echo ${'0123456789abcdef'.repeat(4)} ;;
esac
`;
  writeFileSync(join(home, 'bin/limactl'), lima);
  chmodSync(join(home, 'bin/limactl'), 0o755);
  const cli = join(repository, 'src/entries/client-cli.ts');
  const env = { HOME: home, PATH: `${join(home, 'bin')}:/usr/bin:/bin` };
  const ran = spawnSync(process.execPath, ['--import', MAC, cli, 'vm', ...words], { env, cwd: home, encoding: 'utf8' });
  const asked = existsSync(log) ? readFileSync(log, 'utf8').trim().split('\n') : [];
  return { code: ran.status, stderr: ran.stderr, stdout: ran.stdout, asked };
}

const dirs = () => findUserDirs({}, { HOME: home });
const shop = () => join(home, 'projects/shop');

test('vm create makes the machine, shares the folder, starts the daemon and takes the token', () => {
  const { code, stderr, asked } = vm(['create', shop()]);
  expect({ code, stderr }).toMatchObject({ code: 0 });
  const template = join(dirs().stateDir, 'lima.yaml');
  const inside = `shell --workdir / ${MACHINE}`;
  expect(asked).toEqual([
    'list --json',
    `create --tty=false --name=${MACHINE} ${template}`,
    `start --tty=false --timeout=19m ${MACHINE}`,
    `${inside} test -O ${shop()} -a -w ${shop()}`,
    `${inside} ringfence workspace list --json`,
    `${inside} ringfence workspace remove /gone`,
    `${inside} ringfence workspace add ${shop()}`,
    `${inside} sh -c ringfence service status --json || :`,
    `${inside} ringfence service install --now`,
    `${inside} sh -c cat "\${XDG_STATE_HOME:-$HOME/.local/state}/ringfence/operator.token"`,
  ]);
  expect(stderr).toContain('$ limactl start');
  expect(stderr).toContain('(at most 20 min)');
  expect(readFileSync(join(dirs().stateDir, 'operator.token'), 'utf8')).toBe(`${'0123456789abcdef'.repeat(4)}\n`);
  const { mounts, portForwards } = parse(readFileSync(template, 'utf8'));
  expect(mounts).toEqual([{ location: shop(), mountPoint: shop(), writable: true }]);
  expect(portForwards.map(({ hostSocket }: { hostSocket: string }) => hostSocket)).toEqual([
    dirs().socket,
    dirs().mcpSocket,
  ]);
});

test('vm create gives a machine that is there other folders, and vm delete leaves nothing outside of it', () => {
  const { asked } = vm(['create', shop()], [{ name: 'other' }, { name: MACHINE, status: 'Running' }]);
  expect(asked.slice(1, 4)).toEqual([
    `stop ${MACHINE}`,
    `edit --tty=false --set .mounts = [{"location":"${shop()}","mountPoint":"${shop()}","writable":true}] | .param.package = "ringfence@${version}" ${MACHINE}`,
    `start --tty=false --timeout=19m ${MACHINE}`,
  ]);
  const agent = join(home, 'Library/LaunchAgents/io.ringfence.vm.plist');
  expect(existsSync(agent)).toBe(true);
  expect(vm(['delete'], [{ name: MACHINE }]).asked).toContain(`delete --force ${MACHINE}`);
  for (const it of [agent, join(dirs().stateDir, 'operator.token')]) expect(existsSync(it)).toBe(false);
});

test('a verb of a machine that is not there says how to make it, and vm status that nothing listens', () => {
  expect(vm(['start'])).toMatchObject({ code: 1, stderr: expect.stringContaining('ringfence vm create FOLDER') });
  const config = { mounts: [{ location: shop() }] };
  const { code, stdout } = vm(['status', '--json'], [{ name: MACHINE, status: 'Stopped', config }]);
  expect(code).toBe(1);
  expect(JSON.parse(stdout)).toEqual({
    ...{ machine: MACHINE, status: 'Stopped', folders: [shop()] },
    ...{ socket: dirs().socket, answers: false },
  });
});

test.each([
  ['the home folder', () => home, 'holds'],
  ['a folder around it', () => join(home, '..'), 'holds'],
  ['a folder of settings', () => join(home, '.config'), 'holds settings'],
  ['the Library', () => join(home, 'Library/Keychains'), 'holds settings'],
  ['a folder with a space', () => join(home, 'my project'), 'has a space'],
  ['a folder beside one inside it', () => join(home, 'projects'), 'name one of them'],
  ['a file', () => '/etc/passwd', 'is no folder'],
  ['a folder of another user', () => '/usr/share', process.getuid?.() === 0 ? undefined : 'belongs to another user'],
])('vm create refuses %s before Lima is asked', (_, folder, why) => {
  if (why === undefined) return;
  for (const it of ['.config', 'Library/Keychains', 'my project']) mkdirSync(join(home, it), { recursive: true });
  const { code, stderr, asked } = vm(['create', folder(), shop()]);
  expect({ code, asked }).toEqual({ code: 2, asked: [] });
  expect(stderr).toContain(why);
});

test('vm refuses the state directory of a daemon of this machine, whose token and sockets it would replace', () => {
  mkdirSync(dirs().stateDir, { recursive: true, mode: 0o700 });
  writeFileSync(join(dirs().stateDir, 'daemon.lock'), '');
  const { code, stderr, asked } = vm(['delete'], [{ name: MACHINE }]);
  expect({ code, asked }).toEqual({ code: 2, asked: [] });
  expect(stderr).toContain('RINGFENCE_STATE');
});

test('without Lima the error says how to get it', () => {
  const cli = join(repository, 'src/entries/client-cli.ts');
  const ran = spawnSync(process.execPath, [cli, 'vm', 'start'], { env: { HOME: home, PATH: home }, encoding: 'utf8' });
  expect(ran).toMatchObject({ status: 1, stderr: expect.stringContaining('brew install lima') });
});

test('the provisioning script is valid shell, and the template names no image, mount or key of its own', () => {
  expect(spawnSync('bash', ['-n'], { input: PROVISION, encoding: 'utf8' })).toMatchObject({ status: 0, stderr: '' });
  expect(templateOf(['/Volumes/Projects/shop'], 'ringfence@1.2.3', dirs())).toMatchObject({
    minimumLimaVersion: '2.0.0',
    base: 'template:_images/debian-13',
    param: { package: 'ringfence@1.2.3' },
    ssh: { forwardAgent: false, loadDotSSHPubKeys: false },
    provision: [{ mode: 'system', script: PROVISION }],
  });
});

test('the launchd agent is a property list with these words', () => {
  const words = ['/opt/homebrew/bin/limactl', 'start', 'a&b<c>'];
  const python = 'import json, plistlib, sys; print(json.dumps(plistlib.loads(sys.stdin.buffer.read())))';
  const ran = spawnSync('/usr/bin/python3', ['-c', python], {
    input: plist(words, '/Users/ada/vm.log'),
    encoding: 'utf8',
  });
  expect(ran.stderr).toBe('');
  expect(JSON.parse(ran.stdout)).toMatchObject({
    ...{ Label: 'io.ringfence.vm', ProgramArguments: words, RunAtLoad: true, Umask: 0o077 },
    StandardErrorPath: '/Users/ada/vm.log',
  });
});
