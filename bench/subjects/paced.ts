import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { ringfence, startDaemon, temporaryDir } from '../../test/support/daemon.ts';
import { type Context, defineBench, type Figure } from '../bench.ts';
import {
  addFiles,
  byClient,
  byMcp,
  byPeers,
  type Caller,
  type Paced,
  runSession,
  SHARED,
  type Task,
} from '../floors/paced-session.ts';
import { breakAgain, makeProject } from '../floors/project.ts';
import { startMcp } from '../mcp-line.ts';
import { median, quantile, spreadOf } from '../measure.ts';
import { NOT_INSTALLED, startPeer } from '../peers.ts';

/** Pause in ms between two calls: much shorter than a model's turn, and long enough for everything to fall asleep. */
const PAUSE_MS = 60;
const FIRST_MS_MAX = 150;
const PEERS = 'server-filesystem, mcp-server-commands';

/** Opens a session in its folder, and resolves when it takes calls; `parts` end with the session. */
type Opening = (parts: AsyncDisposableStack) => Promise<Caller>;

interface Subject {
  readonly folder: string;
  readonly open: Opening;
}

function project(root: string): string {
  mkdirSync(root, { recursive: true });
  addFiles(root);
  makeProject(root);
  return root;
}

const bridge = (socket: string, folder: string) => ({
  program: process.execPath,
  args: [ringfence, 'mcp', '--socket', socket, '--workspace', folder],
  cwd: folder,
  env: { PATH: process.env.PATH ?? '' },
});

/** A daemon that starts with each session; its state directory stays, as for a user. */
function fresh(stateDir: string, folder: string): Record<string, Subject> {
  const start = async (parts: AsyncDisposableStack) => parts.use(await startDaemon({ stateDir, workspace: folder }));
  return {
    'a fresh daemon, our own protocol': {
      folder,
      open: async (parts) => byClient(parts.use(await (await start(parts)).connect())),
    },
    'a fresh daemon, MCP': {
      folder,
      open: async (parts) => {
        const { socket } = await start(parts);
        return byMcp(parts.use(await startMcp(bridge(socket, folder))));
      },
    },
  };
}

/** New sessions of a daemon that has served others in the same workspace. */
async function warm(bench: Context, folder: string): Promise<Record<string, Subject>> {
  const daemon = await bench.daemon();
  return {
    'a warm daemon, our own protocol': {
      folder,
      open: async (parts) => byClient(parts.use(await daemon.connect({ workspace: folder }))),
    },
    'a warm daemon, MCP': {
      folder,
      open: async (parts) => byMcp(parts.use(await startMcp(bridge(daemon.socket, folder)))),
    },
  };
}

/** Servers that start with each session, as MCP clients do; undefined if they are not installed. */
async function peers(bench: Context, folder: string, home: string): Promise<Record<string, Subject> | undefined> {
  const start = async (parts: AsyncDisposableStack) => {
    const [files, commands] = [
      await startPeer('files', { folder, home }),
      await startPeer('commands', { folder, home }),
    ];
    for (const it of [files, commands]) if (it) parts.use(it.line);
    return files && commands && { files, commands };
  };
  await using parts = new AsyncDisposableStack();
  const started = await start(parts);
  if (!started) {
    bench.skip(PEERS, NOT_INSTALLED);
    return undefined;
  }
  const open: Opening = async (of) => byPeers((await start(of)) ?? started, folder);
  return { [PEERS]: { folder, open } };
}

/** The calls of each session, by subject and round. */
type Sessions = Record<string, (readonly Paced[])[]>;

async function take(subjects: Record<string, Subject>, bench: Context): Promise<Sessions> {
  const sessions: Sessions = Object.fromEntries(Object.keys(subjects).map((it) => [it, []]));
  const pace = { calls: bench.size(10, 100), pauseMs: bench.size(5, PAUSE_MS) };
  for (let round = bench.size(0, -1); round < bench.size(1, 6); round++)
    for (const [name, { folder, open }] of Object.entries(subjects)) {
      breakAgain(folder);
      await using parts = new AsyncDisposableStack();
      const taken = await runSession(await open(parts), pace);
      if (round >= 0) sessions[name]?.push(taken);
    }
  return sessions;
}

/** The times of calls after the first one, by round. */
const laterOf = (sessions: readonly (readonly Paced[])[], tasks?: readonly Task[]): number[][] =>
  sessions.map((all) =>
    all
      .slice(1)
      .filter((it) => tasks?.includes(it.task) ?? true)
      .map((it) => it.ms),
  );

const p95 = (all: readonly number[]) => quantile(all, 0.95);

/** Ratio to the peer round by round, by median or p95. */
const beside = (own: number[][], theirs: number[][], of: (all: readonly number[]) => number) =>
  spreadOf(own.map((round, at) => of(round) / of(theirs[at] as number[])));

function tell(bench: Context, sessions: Sessions, peer: string | undefined): void {
  const row = (name: string, all: number[]): Figure => ({ name, unit: 'ms', value: median(all), p95: p95(all) });
  const firstOf = (name: string) => median((sessions[name] ?? []).map(([it]) => it?.ms ?? Number.NaN));
  const sharedOf = (name: string) => laterOf(sessions[name] ?? [], SHARED);
  const { figures } = bench.findings;
  for (const [name, all] of Object.entries(sessions))
    figures.push({ ...row(name, laterOf(all).flat()), first: firstOf(name) });
  const shared = `${SHARED.join(', ')}:`;
  const floor = `${shared} ${peer}`;
  if (peer !== undefined) figures.push(row(floor, sharedOf(peer).flat()));
  for (const name of Object.keys(sessions).filter((it) => it !== peer)) {
    figures.push({ name: `the first call: ${name}`, unit: 'ms', value: firstOf(name), goal: { most: FIRST_MS_MAX } });
    if (peer === undefined) continue;
    for (const [what, of] of Object.entries({ median, p95 })) {
      const over = { floor, ratio: beside(sharedOf(name), sharedOf(peer), of) };
      const value = of(sharedOf(name).flat());
      figures.push({ name: `${shared} ${what}: ${name}`, unit: 'ms', value, over, goal: { ratio: 1 } });
    }
  }
  for (const [name, all] of Object.entries(sessions)) bench.say(`Median and p95 in ms of ${name}: ${byTask(all)}.`);
}

function byTask(sessions: readonly (readonly Paced[])[]): string {
  const tasks = [...new Set(sessions.flat().map((it) => it.task))];
  const shown = tasks.map((task) => {
    const all = laterOf(sessions, [task]).flat();
    return `${task} ${median(all).toFixed(1)} and ${p95(all).toFixed(1)}`;
  });
  return shown.join(', ');
}

async function run(bench: Context): Promise<void> {
  const folder = temporaryDir('paced');
  const home = temporaryDir('peers-home');
  const stateDir = temporaryDir('state');
  try {
    const client = await bench.client('paced');
    const others = await peers(bench, project(join(folder, 'peers')), home);
    const subjects = {
      ...fresh(stateDir, project(join(folder, 'fresh'))),
      ...(await warm(bench, project(client.folder))),
      ...others,
    };
    tell(bench, await take(subjects, bench), others && PEERS);
  } finally {
    for (const it of [folder, home, stateDir]) rmSync(it, { recursive: true, force: true });
  }
}

export default defineBench({
  title: 'What a user feels',
  question:
    'What does an agent wait for that makes a hundred mixed calls with pauses, on a daemon that has just started and on one that has served before?',
  run,
});
