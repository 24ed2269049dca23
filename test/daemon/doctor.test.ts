/** `ringfence doctor` on this real machine, and its findings on simulated ones. */
import { spawn } from 'node:child_process';
import { chmodSync, chownSync, copyFileSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { NODE_MIN } from '../../src/base/runtime.ts';
import { type DoctorFinding, judgeMachine, type MachineFacts, readMachine } from '../../src/cli/doctor/machine.ts';
import { PROBE_IDS } from '../../src/sandbox/proof/probes.ts';
import { canServeOthers, openDaemon, processesWith, ringfence, startDaemon, temporaryDir } from '../support/daemon.ts';

const home = temporaryDir('home');
const workspace = join(home, 'project');
const state = join(home, 'state');
beforeAll(() => {
  mkdirSync(workspace);
});
afterAll(() => rmSync(home, { recursive: true, force: true }));

interface Report {
  ok: boolean;
  level: string;
  missing: string[];
  findings: DoctorFinding[];
  probes: { id: string; result: string; fix?: string }[];
}

async function doctor(args: string[], env: Record<string, string> = {}, cwd = workspace) {
  const child = spawn(process.execPath, [ringfence, 'doctor', ...args], {
    cwd,
    env: { PATH: process.env.PATH ?? '', HOME: home, RINGFENCE_STATE: state, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const [code, stdout, stderr] = await Promise.all([ended, text(child.stdout), text(child.stderr)]);
  return { code, stdout, stderr, report: (): Report => JSON.parse(stdout) };
}
const finding = ({ findings }: Report, id: string) => findings.find((it) => it.id === id);

test('a proxy that the environment names is tried, and files without certificates are named', async () => {
  const env = { HTTPS_PROXY: 'http://me:secret@127.0.0.1:9', NODE_EXTRA_CA_CERTS: join(home, 'none.pem') };
  const { code, report, stdout } = await doctor(['--json'], env);
  expect(code).toBe(1);
  expect(finding(report(), 'outgoing-proxy')).toMatchObject({
    status: 'problem',
    found: expect.stringMatching(/127\.0\.0\.1:9 .*ECONNREFUSED/),
  });
  expect(finding(report(), 'authorities')).toMatchObject({
    status: 'warning',
    found: expect.stringContaining('none.pem'),
  });
  expect(stdout).not.toContain('secret@');
});

test('this machine would run every tier: all probes hold, that of memory only with control groups, and it leaves nothing behind', async () => {
  const { code, report, stderr } = await doctor(['--json']);
  const told = report();
  expect({ code, stderr, ok: told.ok }).toEqual({ code: 0, stderr: '', ok: true });
  const open = told.missing.includes('cgroup') ? ['memory'] : [];
  expect(told.level).toBe(open.length === 0 ? 'A' : 'B');
  expect(told.probes.map((it) => it.id)).toEqual(PROBE_IDS);
  expect(told.probes.filter((it) => it.result !== 'ok').map((it) => it.id)).toEqual(open);
  expect(told.probes.filter((it) => it.fix).map((it) => it.id)).toEqual(open);
  expect(finding(told, 'daemon')).toMatchObject({ status: 'ok', found: expect.stringMatching(/^no daemon runs/) });
  expect(finding(told, 'git-config')).toMatchObject({ status: 'ok' });
  expect(readdirSync(state)).toEqual([]);
  expect(processesWith(state)).toEqual([]);
});

test.runIf(canServeOthers)('root is warned about a workspace of another user', async () => {
  const theirs = temporaryDir('theirs');
  chownSync(theirs, 64_123, 64_123);
  const { report } = await doctor(['--json', '--workspace', theirs]);
  expect(finding(report(), 'owner')).toMatchObject({ status: 'warning', found: expect.stringContaining('64123') });
  rmSync(theirs, { recursive: true });
});

test('people get a line for each, a fix below what is not right, and a last word', async () => {
  const config = join(home, 'no-cgroup.yaml');
  writeFileSync(config, 'cgroup: none\n');
  const { code, stdout } = await doctor([], { RINGFENCE_CONFIG: config });
  expect(code).toBe(0);
  expect(stdout).toMatch(/^ok +bubblewrap +\d+\.\d+\.\d+ \(\/usr\/bin\/bwrap\)$/m);
  expect(stdout).toMatch(/^warning +memory +not enforced: .*\n +→ .*Delegate=yes/m);
  expect(stdout).toMatch(/\ncalls can run here; \d+ warnings\n$/);
});

describe('a problem that would keep a daemon from starting', () => {
  test.each([
    ['a folder that is no workspace', ['--workspace', '/'], 'configuration', /can't be a workspace/],
    [
      'a state directory that can not be',
      ['--state', '/proc/nope'],
      'configuration',
      /\/proc\/nope can't be created or used: ENOENT/,
    ],
    ['a policy that is not taken', ['--policy', 'BAD'], 'policy', /bad\.yaml:2:24/],
  ] as const)('doctor exits with 1 and reports %s', async (_, args, id, found) => {
    const bad = join(home, 'bad.yaml');
    writeFileSync(bad, 'tiers:\n  execute: { decision: maybe }\n', { mode: 0o600 });
    const { code, report } = await doctor(['--json', ...args.map((it) => (it === 'BAD' ? bad : it))]);
    expect(code).toBe(1);
    expect(finding(report(), id)).toMatchObject({ status: 'problem', found: expect.stringMatching(found) });
    // The other checks run all the same.
    expect(report().probes.filter((it) => it.result !== 'ok' && it.id !== 'memory')).toEqual([]);
  });

  test('something at its socket that does not answer, within its bound', async () => {
    const socket = join(home, 'hung.sock');
    const server = createServer(() => {});
    await new Promise<void>((resolve) => server.listen(socket, resolve));
    const config = join(home, 'hung.yaml');
    writeFileSync(config, 'internalLimits: { helloTimeoutMs: 200 }\n');
    writeFileSync(join(state, 'operator.token'), 'token\n');
    try {
      const { code, report } = await doctor(['--json', '--socket', socket], { RINGFENCE_CONFIG: config });
      expect(code).toBe(1);
      expect(finding(report(), 'daemon')).toMatchObject({
        status: 'problem',
        found: expect.stringMatching(/not answer/),
      });
    } finally {
      server.close();
    }
  });
});

describe('where bubblewrap fails as on other systems', () => {
  const COMPLAINT = 'bwrap: setting up uid map: Permission denied';
  const bin = temporaryDir('bin');
  afterAll(() => rmSync(bin, { recursive: true }));

  /** Runs the doctor where /usr/bin/bwrap is `script`, in a mount namespace of its own. */
  async function doctorWith(script: string): Promise<{ code: number | null; report: Report }> {
    chmodSync(bin, 0o755);
    copyFileSync('/usr/bin/bwrap', join(bin, 'real'));
    writeFileSync(join(bin, 'bwrap'), `#!/bin/sh\n${script}\n`);
    for (const it of ['real', 'bwrap']) chmodSync(join(bin, it), 0o755);
    const isRoot = process.getuid?.() === 0;
    const namespaces = isRoot ? ['-m'] : ['-Um', '--map-current-user', '--keep-caps'];
    const then = isRoot ? '' : 'setpriv --inh-caps=-all --ambient-caps=-all';
    const mount = `mount --bind ${join(bin, 'bwrap')} /usr/bin/bwrap && exec ${then} "$@"`;
    const program = [process.execPath, ringfence, 'doctor', '--json'];
    const child = spawn('unshare', [...namespaces, 'sh', '-c', mount, 'sh', ...program], {
      cwd: workspace,
      env: { PATH: process.env.PATH ?? '', HOME: home, RINGFENCE_STATE: state },
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
    const [code, stdout] = await Promise.all([ended, text(child.stdout)]);
    return { code, report: JSON.parse(stdout) };
  }
  const fail = `{ echo '${COMPLAINT}' >&2; exit 1; }`;

  test('doctor says that no sandbox could be built, and what bubblewrap said', async () => {
    const { code, report } = await doctorWith(fail);
    expect({ code, level: report.level }).toEqual({ code: 1, level: 'none' });
    const told = finding(report, 'confinement');
    expect(told).toMatchObject({ status: 'problem', fix: expect.stringContaining(COMPLAINT) });
  });

  test('only within another sandbox, it says so: nesting is really tried', async () => {
    // The copy is in no sandbox.
    const real = join(bin, 'real');
    const { code, report } = await doctorWith(`[ -x ${real} ] || ${fail}\nexec ${real} "$@"`);
    expect({ code, missing: report.missing }).toEqual({ code: 0, missing: expect.arrayContaining(['execute-host']) });
    const told = finding(report, 'confinement');
    expect(told).toMatchObject({ status: 'warning', fix: expect.stringMatching(`nested sandboxes\\..*${COMPLAINT}`) });
  });
});

test('doctor beside a daemon says which one runs, and does not disturb it', async () => {
  await using daemon = await startDaemon();
  const where = ['--state', daemon.stateDir, '--socket', daemon.socket, '--workspace', daemon.workspace];
  const { code, report } = await doctor(['--json', ...where]);
  expect(code).toBe(0);
  expect(finding(report(), 'daemon')?.found).toMatch(
    new RegExp(`^pid ${daemon.pid}, version .*, level ${daemon.confinement.level}$`),
  );
  expect(readdirSync(daemon.stateDir).filter((it) => it.includes('doctor'))).toEqual([]);
  await using client = await daemon.connect();
  expect(await client.call('terminal_execute', { command: 'true' })).toMatchObject({ success: true });
});

test('a daemon says what it proved, in its status and its log, and takes it again the next time', async () => {
  const stateDir = temporaryDir('state');
  try {
    for (const cached of [[], PROBE_IDS]) {
      await using daemon = await openDaemon({ stateDir, workspace });
      await using client = await daemon.connect();
      const { confinement } = (await client.request('status', {})) as { confinement: { probes: object } };
      const memory = daemon.confinement.cgroup === 'none' ? 'leaks' : 'ok';
      const expected = Object.fromEntries(PROBE_IDS.map((id) => [id, id === 'memory' ? memory : 'ok']));
      expect(confinement).toMatchObject({ level: daemon.confinement.level, probes: expected });
      const line = daemon
        .log()
        .split('\n')
        .find((it) => it.includes('"cached"'));
      expect(JSON.parse(line ?? '{}').cached).toEqual(cached);
    }
  } finally {
    rmSync(stateDir, { recursive: true, force: true });
  }
});

describe('the findings on another machine', () => {
  const good: MachineFacts = {
    node: { version: '26.0.0', path: '/n' },
    platform: 'linux',
    arch: 'x64',
    kernel: '6.1',
    isRoot: false,
    distribution: ['debian'],
    bwrap: { path: '/usr/bin/bwrap', version: '0.11.0' },
    userns: { max: '1000' },
    cgroup: { v2: true, v1: [], delegated: ['cpu', 'memory', 'pids'] },
    programs: { prlimit: '/p', setpriv: '/s', unshare: '/u', git: '/g', rg: '/r' },
  };
  const { bwrap: _, ...noBwrap } = good;

  test('a sound machine has no finding', () => {
    expect(judgeMachine(good).filter((it) => it.status !== 'ok' || it.fix)).toEqual([]);
  });

  const OTHERS: [string, MachineFacts, string, DoctorFinding['status'], RegExp][] = [
    ['no bubblewrap', noBwrap, 'bubblewrap', 'problem', /apt-get install bubblewrap/],
    ['an old one', { ...good, bwrap: { path: '/b', version: '0.4.1' } }, 'bubblewrap', 'problem', /0\.8\.0 or newer/],
    ['an old Node', { ...good, node: { version: '24.9.0', path: '/n' } }, 'node', 'problem', /26\.0\.0/],
    ['a Mac', { ...good, platform: 'darwin', arch: 'arm64' }, 'kernel', 'problem', /on Linux, on x86_64 or arm64/],
    ['another processor', { ...good, arch: 'riscv64' }, 'kernel', 'problem', /on Linux, on x86_64 or arm64/],
    ['no namespaces', { ...good, userns: {} }, 'user-namespaces', 'problem', /CONFIG_USER_NS/],
    ['none allowed', { ...good, userns: { max: '0' } }, 'user-namespaces', 'problem', /max_user_namespaces/],
    [
      "Debian's switch",
      { ...good, userns: { max: '9', clone: '0' } },
      'user-namespaces',
      'problem',
      /unprivileged_userns_clone=1/,
    ],
    ['AppArmor', { ...good, userns: { max: '9', apparmor: '1' } }, 'user-namespaces', 'warning', /AppArmor profile/],
    [
      'no bubblewrap on Fedora',
      { ...noBwrap, distribution: ['fedora'] },
      'bubblewrap',
      'problem',
      /sudo dnf install b/,
    ],
    ['no cgroup', { ...good, cgroup: { v2: true, v1: [] } }, 'cgroup', 'warning', /Delegate=yes/],
    ['no ripgrep', { ...good, programs: { ...good.programs, rg: undefined } }, 'rg', 'warning', /install ripgrep/],
  ];
  test.each(OTHERS)('doctor finds %s, with the fix', (_, facts, id, status, fix) => {
    const found = judgeMachine(facts).filter((it) => it.status !== 'ok');
    expect(found).toEqual([expect.objectContaining({ id, status, fix: expect.stringMatching(fix) })]);
  });

  test('doctor reads of this machine all that it judges', () => {
    expect(judgeMachine(readMachine()).map((it) => it.id)).toEqual(judgeMachine(good).map((it) => it.id));
  });

  test('doctor requires the Node that the programs ask for', async () => {
    expect(NODE_MIN).toBe(((await import('../../bin/start.js' as string)) as { NEEDED: string }).NEEDED);
  });
});
