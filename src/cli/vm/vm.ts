/** `ringfence vm`: a Linux machine for a Mac, which Lima runs, with the daemon in it and its sockets outside. */
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { version } from '../../base/runtime.ts';
import { parseJson } from '../../base/text/json.ts';
import { isRecord } from '../../base/text/values.ts';
import { type Environment, findUserDirs, lockFile, makeStateDir, type UserDirs } from '../../daemon/user-dirs.ts';
import { connectUnix } from '../../wire/transport/unix-socket.ts';
import type { CliCaller } from '../connect.ts';
import { EXIT, harmless, OperatorError, print, printJson, say, UsageError } from '../output.ts';
import { foldersFor } from './folders.ts';
import { LABEL, plist } from './launchd.ts';
import { MACHINE, mountsOf, templateOf } from './machine.ts';

export interface VmFlags {
  readonly json?: boolean;
  readonly login?: boolean;
  readonly package?: string;
}

/** Minutes that a step may take: with the download of an image, the start of a machine, a command in it. */
const MINUTES = { create: 30, start: 20, stop: 5, inside: 5, look: 1 } as const;
/** Bytes that are read of a step. */
const OUTPUT_MAX = 1024 * 1024;
/** Bytes of a socket's path on a Mac, whose sun_path holds 104 with the NUL. */
const SOCKET_BYTES_MAX = 103;

interface Step {
  readonly minutes: number;
  /** Gives what the program prints, which is then not shown; a step that only looks is not shown either. */
  readonly reads?: 'quietly' | true | undefined;
}

class Machine {
  /** Path of Lima's program. */
  readonly lima: string;
  readonly dirs: UserDirs;

  constructor(env: Environment) {
    this.lima = limaIn(env);
    this.dirs = findUserDirs({}, env);
    if (existsSync(lockFile(this.dirs.stateDir)))
      throw new UsageError(
        `${this.dirs.stateDir} belongs to a daemon of this machine; name another folder in RINGFENCE_STATE`,
      );
  }

  /** Runs Lima and gives what it printed. Throws OperatorError with what to do if it fails or takes too long. */
  run(args: readonly string[], { minutes, reads }: Step): string {
    if (reads !== 'quietly') say(harmless(`$ limactl ${args.join(' ')}   (at most ${minutes} min)`));
    const { error, status, stdout, stderr } = spawnSync(this.lima, args, {
      stdio: ['ignore', reads ? 'pipe' : 2, reads === 'quietly' ? 'pipe' : 2],
      timeout: minutes * 60_000,
      maxBuffer: OUTPUT_MAX,
      encoding: 'utf8',
    });
    if (!error && status === 0) return stdout ?? '';
    const why = error ? error.message : `exit code ${status}${stderr ? `: ${stderr.trim()}` : ''}`;
    throw new OperatorError(harmless(`limactl ${args[0]} failed (${why}); its log: ~/.lima/${MACHINE}/ha.stderr.log`));
  }

  /** Runs a program in the machine. */
  inside(words: readonly string[], reads?: Step['reads']): string {
    return this.run(['shell', '--workdir', '/', MACHINE, ...words], {
      minutes: MINUTES.inside,
      reads,
    });
  }

  /** What Lima says of the machine; undefined if there is none. */
  get state(): { status: string; folders: string[] } | undefined {
    const listed = this.run(['list', '--json'], { minutes: MINUTES.look, reads: 'quietly' });
    for (const line of listed.split('\n').filter(Boolean)) {
      const it = parseJson(line);
      if (!isRecord(it) || it.name !== MACHINE) continue;
      const { mounts } = (isRecord(it.config) ? it.config : {}) as { mounts?: { location?: string }[] };
      return { status: String(it.status), folders: (mounts ?? []).map(({ location }) => String(location)) };
    }
    return undefined;
  }

  /** The state of a machine that must be there. Throws OperatorError. */
  get known(): { status: string; folders: string[] } {
    const { state } = this;
    if (!state) throw new OperatorError('there is no machine yet; make one with: ringfence vm create FOLDER');
    return state;
  }

  /** Takes the operator's token out of the machine, for the verbs of a person at the host. */
  takeToken(): void {
    const token = this.inside(
      ['sh', '-c', 'cat "${XDG_STATE_HOME:-$HOME/.local/state}/ringfence/operator.token"'],
      true,
    ).trim();
    if (!/^[\w-]{20,200}$/.test(token))
      throw new OperatorError(
        'the daemon in the machine has written no token; look with: ringfence vm shell ringfence service status',
      );
    const path = join(this.dirs.stateDir, 'operator.token');
    rmSync(path, { force: true });
    writeFileSync(path, `${token}\n`, { mode: 0o600, flag: 'wx' });
  }
}

function limaIn({ PATH = '', HOME = '' }: Environment): string {
  const find = (program: string) =>
    [...PATH.split(delimiter), '/opt/homebrew/bin', '/usr/local/bin', join(HOME, '.local/bin')]
      .map((it) => join(it, program))
      .find((it) => it.startsWith('/') && existsSync(it));
  const lima = find('limactl');
  if (lima !== undefined) return lima;
  const beside = find('container')
    ? "; Apple's `container` can't take its place: its machines get the whole home and forward no socket"
    : '';
  throw new OperatorError(`Lima is not installed (no limactl in PATH); install it with: brew install lima${beside}`);
}

/** `vm create`: makes the machine, or gives the one that is there other folders. Returns the exit code. */
export function vmCreate(named: readonly string[], flags: VmFlags, { env }: CliCaller): number {
  const machine = new Machine(env);
  const { dirs } = machine;
  const folders = foldersFor(named, dirs);
  if (Buffer.byteLength(dirs.mcpSocket) > SOCKET_BYTES_MAX || Buffer.byteLength(dirs.socket) > SOCKET_BYTES_MAX)
    throw new UsageError(`${dirs.socket} is too long for a socket; name a shorter folder in RINGFENCE_STATE`);
  makeStateDir(dirs.stateDir);
  const npmPackage = flags.package ?? `ringfence@${version}`;
  const { state } = machine;
  if (state) {
    if (state.status === 'Running') machine.run(['stop', MACHINE], { minutes: MINUTES.stop });
    const changes = `.mounts = ${JSON.stringify(mountsOf(folders))} | .param.package = ${JSON.stringify(npmPackage)}`;
    machine.run(['edit', '--tty=false', '--set', changes, MACHINE], { minutes: MINUTES.look });
  } else {
    const template = join(dirs.stateDir, 'lima.yaml');
    const text = JSON.stringify(templateOf(folders, npmPackage, dirs), null, 2);
    writeFileSync(template, `${text}\n`, { mode: 0o600 });
    machine.run(['create', '--tty=false', `--name=${MACHINE}`, template], { minutes: MINUTES.create });
  }
  start(machine);
  for (const it of folders) assertOwn(machine, it);
  share(machine, folders);
  machine.takeToken();
  if (flags.login !== false && process.platform === 'darwin') startAtLogin(machine, env);
  say(`the daemon's socket is ${dirs.socket}; connect an agent with: ringfence mcp`);
  return EXIT.OK;
}

/** Checks that the machine's user owns a folder as the person outside does, so that what either makes belongs to both. */
function assertOwn(machine: Machine, folder: string): void {
  try {
    machine.inside(['test', '-O', folder, '-a', '-w', folder]);
  } catch {
    throw new OperatorError(
      `${harmless(folder)} belongs to another user inside of the machine, or can't be written there; look with: ringfence vm shell ls -ld ${harmless(folder)}`,
    );
  }
}

/** Lets agents work in exactly these folders, and starts the daemon where it does not run. */
function share(machine: Machine, folders: readonly string[]): void {
  const ringfence = (words: string[], reads?: Step['reads']) => machine.inside(['ringfence', ...words], reads);
  const listed = parseJson(ringfence(['workspace', 'list', '--json'], true)) as { path: string; from: string }[];
  const added = listed.filter(({ from }) => from === 'ringfence workspace add').map(({ path }) => path);
  const gone = added.filter((it) => !folders.includes(it));
  const fresh = folders.filter((it) => !added.includes(it));
  for (const it of gone) ringfence(['workspace', 'remove', it]);
  for (const it of fresh) ringfence(['workspace', 'add', it]);
  const asked = machine.inside(['sh', '-c', 'ringfence service status --json || :'], true);
  if (!(parseJson(asked) as { installed: boolean }).installed) ringfence(['service', 'install', '--now']);
  else if (gone.length > 0) ringfence(['service', 'restart']);
}

const start = (machine: Machine): string =>
  machine.run(['start', '--tty=false', `--timeout=${MINUTES.start - 1}m`, MACHINE], { minutes: MINUTES.start });

function startAtLogin({ lima, dirs }: Machine, { HOME = '' }: Environment): void {
  const folder = join(HOME, 'Library/LaunchAgents');
  const path = join(folder, `${LABEL}.plist`);
  mkdirSync(folder, { recursive: true });
  writeFileSync(path, plist([lima, 'start', '--tty=false', '--foreground', MACHINE], join(dirs.stateDir, 'vm.log')));
  say(`${path} starts the machine when you log in; remove that file to start it yourself`);
}

export function vmStart({ env }: CliCaller): number {
  const machine = new Machine(env);
  void machine.known;
  makeStateDir(machine.dirs.stateDir);
  start(machine);
  machine.takeToken();
  return EXIT.OK;
}

export function vmStop({ env }: CliCaller): number {
  const machine = new Machine(env);
  void machine.known;
  machine.run(['stop', MACHINE], { minutes: MINUTES.stop });
  return EXIT.OK;
}

/** `vm shell`: a shell in the machine, or a command there. Returns its exit code. */
export function vmShell(words: readonly string[], { env }: CliCaller): number {
  const machine = new Machine(env);
  void machine.known;
  // A person's shell has no bound.
  const { status } = spawnSync(machine.lima, ['shell', MACHINE, ...words], { stdio: 'inherit' });
  return status ?? EXIT.INTERRUPTED;
}

/** `vm status`. Returns the exit code: 1 where no daemon answers. */
export async function vmStatus({ json }: VmFlags, { env }: CliCaller): Promise<number> {
  const machine = new Machine(env);
  const { status, folders } = machine.known;
  const { socket } = machine.dirs;
  const answers = await connectUnix(socket).then(
    (channel) => {
      channel.destroy();
      return true;
    },
    () => false,
  );
  if (json) printJson({ machine: MACHINE, status, folders, socket, answers });
  else {
    print(harmless(`machine ${MACHINE}: ${status}`));
    for (const it of folders) print(harmless(`folder ${it}`));
    print(
      harmless(`socket ${socket}: ${answers ? 'open' : 'nothing listens; start the machine with: ringfence vm start'}`),
    );
  }
  return answers ? EXIT.OK : EXIT.FAILED;
}

/** `vm delete`: removes the machine with the daemon's record, and what was written outside of it. Returns the exit code. */
export function vmDelete({ env }: CliCaller): number {
  const machine = new Machine(env);
  const { dirs } = machine;
  if (machine.state) machine.run(['delete', '--force', MACHINE], { minutes: MINUTES.stop });
  const ours = ['operator.token', 'lima.yaml', 'vm.log', 'panel.html'].map((it) => join(dirs.stateDir, it));
  const agent = join(env.HOME ?? '', 'Library/LaunchAgents', `${LABEL}.plist`);
  for (const it of [...ours, dirs.socket, dirs.mcpSocket, agent]) rmSync(it, { force: true });
  return EXIT.OK;
}
