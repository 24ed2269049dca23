/** Runs the commands of agents that should run, in the box and by a bare bash, in copies of one project. */
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { SYSTEM_PATH } from '../../src/daemon/command-environment.ts';
import { startDaemon, temporaryDir } from '../../test/support/daemon.ts';
import { defineBench } from '../bench.ts';
import { makeProject, rowsOf } from './questions.ts';

const TIMEOUT_MS = 20_000;

/** Commands whose answer differs for a reason, and the reason. */
const REASONS: Readonly<Record<string, string>> = {
  q336: 'Java reports its options',
  q342: 'npx meets a proxy that refuses the host',
  q369: 'curl reports that localhost needs no proxy',
  q386: 'sockets are not listed (NETLINK_SOCK_DIAG)',
  q389: 'the first process is bubblewrap',
  q392: 'environment variables',
  q394: 'host name, disks and memory',
  q396: 'user and host name',
  q400: 'files with secrets are masked',
  q411: 'files with secrets are masked',
  q414: 'files with secrets are masked',
  q417: 'user and host name',
  q431: 'user and host name',
  q449: 'config and hooks of git are held',
  q476: 'localhost is also ::1',
  q503: 'environment variables',
};

interface Ended {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** In namespaces of its own, since some of the commands end processes by name; there is no network, and an empty /tmp. */
const BARE = `ip link set lo up; mount -t tmpfs tmpfs /mnt && mkdir /mnt/app /mnt/home && mount --bind "$1" /mnt/app &&
  mount -t tmpfs tmpfs /tmp && cd /mnt/app && { /bin/bash --norc --noprofile -c "$2"; exit; }`;

function runBare(workspace: string, command: string): Ended {
  const env = { PATH: SYSTEM_PATH.join(':'), HOME: '/mnt/home', LANG: 'C.UTF-8', TERM: 'dumb', CI: '1' };
  const apart = ['--mount', '--net', '--pid', '--fork', '--mount-proc', '--kill-child', 'bash', '-c', BARE, 'bash'];
  const { status, stdout, stderr } = spawnSync('unshare', [...apart, workspace, command], {
    ...{ env, encoding: 'utf8', timeout: TIMEOUT_MS, killSignal: 'SIGKILL', stdio: ['ignore', 'pipe', 'pipe'] },
  });
  return { exitCode: status, stdout, stderr };
}

/** Without what differs between two runs of the same bash: process ids, hashes, times, the user, and the two places. */
const steady = (text: string, workspace: string): string =>
  [
    [workspace, '<ws>'],
    [/\/mnt\/app/g, '<ws>'],
    [/\/mnt\/home|\/run\/home/g, '<home>'],
    [/(?:line \d+: +|started: |^\[\d+\] |\(|node:)\d+\b/gm, '<pid>'],
    [/\b[0-9a-f]{7,40}\b/g, '<hash>'],
    [/\d+(?:\.\d+)? ?m?s\b|\d+m\d+\.\d+s|\d+(?:\.\d+)? seconds|\d\d[:_]\d\d(?:[:_]\d\d(?:_\d+)?)?Z?/g, '<time>'],
    [/tmp\.\w{10}/g, '<made>'],
    // The shell around a bare command says how that ended.
    [/^Terminated\n/gm, ''],
  ].reduce((it, [from, to]) => it.replaceAll(from as string, to as string), text);

export default defineBench({
  title: 'Commands beside a bare bash',
  question: 'Do agents’ commands give the same exit code and output in the box?',
  async run(bench) {
    const [project, bare] = [temporaryDir('project'), temporaryDir('bare')];
    makeProject(project);
    await using daemon = await startDaemon({ policy: 'extends: default\napprovals: { headless: deny }\n' });
    const inside = daemon.workspace;
    const rows = rowsOf(bench.size(20, 1)).filter((it) => it.expect === 'run');
    const differ: string[] = [];
    for (const { id, command } of rows) {
      for (const folder of [inside, bare]) {
        for (const it of readdirSync(folder)) rmSync(join(folder, it), { recursive: true, force: true });
        mkdirSync(folder, { recursive: true });
        cpSync(project, folder, { recursive: true });
      }
      // A session's /tmp lasts as long as it.
      await using client = await daemon.connect();
      const expected = runBare(bare, command.replaceAll('{WS}', '/mnt/app'));
      const words = { command: command.replaceAll('{WS}', inside), timeout: TIMEOUT_MS };
      const result = await client.call('terminal_execute', words);
      const failed = result.success ? '' : `${result.error.code}: ${result.error.message}`;
      const got = result.success ? result.data : { exitCode: null, stdout: '', stderr: failed };
      const parts = (['exitCode', 'stdout', 'stderr'] as const).filter(
        (it) => steady(`${got[it]}`, inside) !== steady(`${expected[it]}`, bare),
      );
      if (parts.length === 0) continue;
      differ.push(id);
      const shown = parts.map((it) => `${it}: ${JSON.stringify(expected[it])} bare, ${JSON.stringify(got[it])} inside`);
      console.error(`${id} ${command}\n  ${REASONS[id] ?? 'no reason is known'}\n  ${shown.join('\n  ')}`);
    }
    const known = differ.filter((it) => it in REASONS);
    bench.value('commands with the same exit code and output', rows.length - differ.length, '');
    bench.value('commands that differ for a reason', known.length, '');
    bench.value('commands that differ without a known reason', differ.length - known.length, '', { most: 0 });
    bench.say(`Known differences: ${[...new Set(known.map((it) => REASONS[it]))].join('; ')}.`);
    for (const it of [project, bare]) rmSync(it, { recursive: true, force: true });
  },
});
