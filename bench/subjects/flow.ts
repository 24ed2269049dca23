/** The steps of a coding agent that fixes a failing test, through MCP servers: how much its model must read, and how long it waits. */
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { findUserDirs } from '../../src/daemon/user-dirs.ts';
import { temporaryDir } from '../../test/support/daemon.ts';
import { type Context, defineBench } from '../bench.ts';
import { breakAgain, FAULT, makeProject } from '../floors/project.ts';
import { connectMcp, type McpLine, type McpResult } from '../mcp-line.ts';
import { inTurns, median, type Taken } from '../measure.ts';
import { type Peers, startPeers } from '../peers.ts';

const STEPS = ['list', 'test', 'read the test', 'search', 'read', 'edit', 'test again', 'diff', 'status'] as const;
type Step = (typeof STEPS)[number];

/** One server, or two that are used together. */
interface Agent {
  readonly name: string;
  readonly lines: readonly McpLine[];
  readonly steps: Readonly<Record<Step, () => Promise<readonly McpResult[]>>>;
}

/** All use the machine's own Node: the sandbox has no other. */
const NODE = 'PATH=/usr/local/bin:/usr/bin:/bin node';
const run = {
  test: `${NODE} --test --test-reporter=spec ${FAULT.test}`,
  diff: 'git diff',
  status: 'git status',
};
/** The search command for servers without a search tool. */
const search = `grep -rn ${FAULT.symbol} src`;

function ours(line: McpLine): Agent {
  const call = async (tool: string, input: object) => [await line.ask(tool, input)];
  const test = () => call('terminal_execute', { command: run.test });
  const replace = { oldText: FAULT.wrong, newText: FAULT.right };
  return {
    name: 'ringfence',
    lines: [line],
    steps: {
      list: () => call('file_list', { path: 'src' }),
      test,
      'read the test': () => call('file_read', { path: FAULT.test }),
      search: () => call('file_grep', { pattern: FAULT.symbol, path: 'src' }),
      read: () => call('file_read', { path: FAULT.file }),
      edit: () => call('file_edit', { path: FAULT.file, operations: [replace] }),
      'test again': test,
      diff: () => call('git_diff', {}),
      status: () => call('git_status', {}),
    },
  };
}

function pairOf({ files, commands }: Peers, folder: string): Agent | undefined {
  if (!files || !commands) return undefined;
  const file = async (tool: string, input: object) => [await files.line.ask(tool, input)];
  const command = async (text: string) => [await commands.line.ask('run_command', { command: text, workdir: folder })];
  const edits = [{ oldText: FAULT.wrong, newText: FAULT.right }];
  return {
    name: `${files.name} and ${commands.name}`,
    lines: [files.line, commands.line],
    steps: {
      list: () => file('list_directory', { path: join(folder, 'src') }),
      test: () => command(run.test),
      'read the test': () => file('read_text_file', { path: join(folder, FAULT.test) }),
      search: () => command(search),
      read: () => file('read_text_file', { path: join(folder, FAULT.file) }),
      edit: () => file('edit_file', { path: join(folder, FAULT.file), edits }),
      'test again': () => command(run.test),
      diff: () => command(run.diff),
      status: () => command(run.status),
    },
  };
}

function commanderOf({ commander }: Peers, folder: string): Agent | undefined {
  if (!commander) return undefined;
  const { name, line } = commander;
  const call = async (tool: string, input: object) => [await line.ask(tool, input)];
  const command = (text: string) => call('start_process', { command: `cd ${folder} && ${text}`, timeout_ms: 20_000 });
  const edit = { file_path: join(folder, FAULT.file), old_string: FAULT.wrong, new_string: FAULT.right };
  return {
    name,
    lines: [line],
    steps: {
      list: () => call('list_directory', { path: join(folder, 'src'), depth: 1 }),
      test: () => command(run.test),
      'read the test': () => call('read_file', { path: join(folder, FAULT.test) }),
      // Its own search needs repeated requests; the command is the shorter way.
      search: () => command(search),
      read: () => call('read_file', { path: join(folder, FAULT.file) }),
      edit: () => call('edit_block', edit),
      'test again': () => command(run.test),
      diff: () => command(run.diff),
      status: () => command(run.status),
    },
  };
}

/**
 * Bytes of a result that a client shows its model: all texts of `content`, or `structuredContent`. Claude Code,
 * Codex, opencode and VS Code use the latter if present, others never. A server is judged by the shorter of the two.
 */
function shownBytes({ content, structuredContent }: McpResult): number {
  const text = content.map((it) => it.text ?? '').join('\n');
  const forms = [text, ...(structuredContent === undefined ? [] : [JSON.stringify(structuredContent)])];
  return Math.min(...forms.map((it) => Buffer.byteLength(it)));
}

interface Bytes {
  /** The tool lists, complete, and without parts that clients show no model. */
  readonly list: number;
  readonly shownList: number;
  readonly results: number;
}

async function bytesOf({ lines, steps }: Agent): Promise<Bytes> {
  const lists = await Promise.all(lines.map((it) => it.list()));
  const shownLists = lists.map(({ tools }) =>
    tools.map(({ name, description, inputSchema }) => ({ name, description, inputSchema })),
  );
  let results = 0;
  for (const it of STEPS) for (const result of await steps[it]()) results += shownBytes(result);
  const sizeOf = (all: readonly object[]) => all.reduce((sum, it) => sum + Buffer.byteLength(JSON.stringify(it)), 0);
  return { list: sizeOf(lists), shownList: sizeOf(shownLists), results };
}

/** Milliseconds of each step, per round. */
type StepTimes = Record<Step, number[]>;

/** Runs each flow in turns, its steps one after another, like an agent. */
async function timesOf(agents: readonly Agent[], folder: string, bench: Context) {
  const byStep: Record<string, StepTimes> = {};
  const flow = (agent: Agent) => {
    const times = Object.fromEntries(STEPS.map((it) => [it, [] as number[]])) as StepTimes;
    byStep[agent.name] = times;
    return async () => {
      breakAgain(folder);
      for (const it of STEPS) {
        const from = performance.now();
        await agent.steps[it]();
        times[it].push(performance.now() - from);
      }
    };
  };
  const taken: Record<string, Taken> = await inTurns(Object.fromEntries(agents.map((it) => [it.name, flow(it)])), {
    rounds: bench.size(1, 12),
    times: 1,
    warmRounds: bench.size(0, 2),
  });
  return { taken, byStep };
}

function tell(bench: Context, all: readonly { readonly agent: Agent; readonly bytes: Bytes }[]): void {
  const kib = (bytes: number) => bytes / 1024;
  for (const { agent, bytes } of all) {
    bench.value(
      `list of tools: ${agent.name}`,
      kib(bytes.list),
      'KiB',
      agent.name === 'ringfence' ? { most: 16 } : undefined,
    );
    bench.value(`list of tools, as models are given it: ${agent.name}`, kib(bytes.shownList), 'KiB');
    bench.value(`results of nine calls: ${agent.name}`, kib(bytes.results), 'KiB');
  }
  const [own, ...others] = all;
  if (!own || others.length === 0) return;
  const least = (of: (bytes: Bytes) => number) => Math.min(...others.map(({ bytes }) => of(bytes)));
  const compare = (name: string, of: (bytes: Bytes) => number, most?: number) =>
    bench.value(name, of(own.bytes) / least(of), '', most === undefined ? undefined : { most });
  compare('list and results, beside the smaller peer', (it) => it.list + it.results, 1.1);
  compare('the same, of the lists what models are given', (it) => it.shownList + it.results);
  compare('results alone, beside the smaller peer', (it) => it.results, 1.1);
}

async function measure(bench: Context): Promise<void> {
  const { folder } = await bench.client('flow');
  const home = temporaryDir('peers-home');
  mkdirSync(folder, { recursive: true });
  makeProject(folder);
  const { socket } = await bench.daemon();
  try {
    await using peers = await startPeers(bench, { folder, home });
    await using line = await connectMcp(findUserDirs({ socket }, {}).mcpSocket, folder);
    const agents = [ours(line), pairOf(peers, folder), commanderOf(peers, folder)].filter((it) => it !== undefined);
    const told: { agent: Agent; bytes: Bytes }[] = [];
    for (const agent of agents) {
      breakAgain(folder);
      told.push({ agent, bytes: await bytesOf(agent) });
    }
    tell(bench, told);
    const { taken, byStep } = await timesOf(agents, folder, bench);
    const [own, ...others] = agents.map((it) => it.name);
    const fastest = others.toSorted((a, b) => median(taken[a]?.flat() ?? []) - median(taken[b]?.flat() ?? []))[0];
    bench.times(taken, fastest === undefined ? {} : { over: fastest, goals: { [own as string]: { ratio: 1.3 } } });
    for (const [name, times] of Object.entries(byStep))
      bench.say(`Milliseconds of ${name}: ${STEPS.map((it) => `${it} ${median(times[it]).toFixed(1)}`).join(', ')}.`);
    bench.value('git_diff, of these', median(byStep[own as string]?.diff ?? []), 'ms', { most: 60 });
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

export default defineBench({
  title: 'Fixing a failing test',
  question: 'What does a model read, and how long does it wait, to fix a failing test in nine calls?',
  run: measure,
});
