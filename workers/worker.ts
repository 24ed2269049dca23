/**
 * A worker thread: takes jobs from its socket, runs their tools, gives their results. Errors are passed as data: a thrown
 * one would lose its class and code between processes.
 */

import { mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { release, tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { threadId, workerData } from 'node:worker_threads';
import { ToolError, toToolError } from '../src/base/errors.ts';
import { silentLog, systemPowers } from '../src/base/powers.ts';
import type { BackgroundJob } from '../src/hosts/background/background-job.ts';
import { IdleHeap } from '../src/hosts/idle-heap.ts';
import type {
  HealthJob,
  HostSetup,
  Job,
  JobResult,
  JobUsage,
  PageJob,
  RollBackJob,
  ToolJob,
} from '../src/hosts/job.ts';
import { pathDecision } from '../src/policy/paths.ts';
import { HOST_PREVIEWS } from '../src/sandbox/bubblewrap.ts';
import { DiskWatch } from '../src/sandbox/command/disk-watch.ts';
import { CommandGroups } from '../src/sandbox/command/group.ts';
import { Homes } from '../src/sandbox/command/homes.ts';
import { Overlay } from '../src/sandbox/command/overlay.ts';
import type { CommandRequest, CommandSetup } from '../src/sandbox/command/request.ts';
import { WaitingSandboxes } from '../src/sandbox/command/waiting-sandbox.ts';
import { createGitIdentity } from '../src/sandbox/git/commit-author.ts';
import { GitView } from '../src/sandbox/git/view.ts';
import { countsTasksByNamespace } from '../src/sandbox/kernel.ts';
import { LiveSockets } from '../src/sandbox/live-sockets.ts';
import { NO_MASKS } from '../src/sandbox/masks.ts';
import { Watchdog } from '../src/sandbox/watchdog.ts';
import { runsBy } from '../src/tools/runs.ts';
import type { Tool } from '../src/tools/tool.ts';
import { Anchor } from './context/anchor.ts';
import { WorkerContext } from './context/context.ts';
import { withRefusal } from './context/denials.ts';
import { ToolLifecycle } from './context/lifecycle.ts';
import { JobClock, threadCpuMs } from './host/job-clock.ts';
import { JobSocket } from './host/job-socket.ts';
import { LoadedTools } from './host/loaded-tools.ts';
import { ownTaskId, ThreadTable } from './host/thread-table.ts';
import type { ThreadSetup, ThreadTask } from './host/tier-host.ts';
import type { Pages } from './pages/pages.ts';
import { Ripgrep } from './search/ripgrep.ts';
import { LanguageServers } from './symbols/language-servers.ts';
import { backgroundFor } from './terminals/background-commands.ts';
import { runBackgroundJob } from './terminals/background-jobs.ts';
import { KeptPrograms } from './terminals/kept-programs.ts';
import { terminalsFor } from './terminals/terminals.ts';
import { openParts } from './thread-parts.ts';
import { Spool } from './undo/spool.ts';

const setup = workerData as ThreadSetup;
const table = new ThreadTable(setup.table);
const taskId = ownTaskId();
const clock = new JobClock();
const powers = systemPowers(silentLog);
const heap = new IdleHeap(powers);
const anchor = setup.workspace === undefined ? undefined : new Anchor(setup.workspace, setup.limits);
const ripgrep = new Ripgrep(setup.limits, powers);
/** Language servers, parsers and linters read hostile sources: only where nothing can be written, in the host's own sandbox. */
const servers = setup.tier === 'read_only' ? new LanguageServers(setup.limits, powers) : undefined;
const parts = openParts(setup, powers);
const command = setup.command && prepare(setup.command);
const liveSockets = command && setup.workspace !== undefined ? new LiveSockets(setup.workspace, powers) : undefined;
const kept = command && new KeptPrograms({ setup: command, powers, onCount: (count) => socket?.tell({ kept: count }) });
let socket: JobSocket | undefined;

/** Serves the socket of this thread. Never settles: the task ends with its thread, or with this process when the gateway is gone. */
export default function serve({ thread, fd }: ThreadTask): Promise<never> {
  const { limits, tier } = setup;
  table.enter(thread, threadId, taskId);
  socket = new JobSocket({
    fd,
    limits,
    powers,
    run,
    // Only reads are short enough to wait for.
    pollMs: tier === 'read_only' ? limits.threadPollMs : 0,
    onBegin: ({ id }) => table.begin(thread, clock.begin(id)),
    endSession: (session) => void endSession(session),
  });
  // What fails here fails in the call that needs it, which is told.
  setImmediate(() => prepareFirstCall(setup).catch(() => {}));
  return new Promise(() => {});
}

async function run(job: Job, signal: AbortSignal, onOutput: CommandRequest['onOutput']): Promise<JobResult> {
  try {
    if ('background' in job) return await backgroundResult(job.background, signal, onOutput);
    return await ('page' in job ? readPage(job) : toResult(job, signal, onOutput));
  } finally {
    clock.end(job.id);
    heap.used();
  }
}

/** A job of a tool, or about tools. */
type OwnJob = Job<ToolJob | RollBackJob | HealthJob>;

async function toResult(job: OwnJob, signal: AbortSignal, onOutput: CommandRequest['onOutput']): Promise<JobResult> {
  const sockets = job.sockets && (await liveSockets?.withoutDead(job.sockets));
  using overlay = 'tool' in job ? overlayOf(job) : undefined;
  const context = contextOf(job, { signal, onOutput, sockets, overlay });
  // Many jobs wait for commands in one thread, so its clock says nothing about them.
  const usage = (): JobUsage => {
    const journal = context.endJournal();
    const used = context.usage(setup.command ? 0 : clock.end(job.id));
    if (job.cpuMs !== undefined) used.enforcedBy += ', thread clock';
    return { ...used, journal };
  };
  try {
    if (job.cpuMs !== undefined && taskId === 0)
      throw new ToolError('SANDBOX_UNAVAILABLE', 'CPU limits need /proc, which is missing');
    if ('rollBack' in job) return { ok: true, data: await rollBack(job.rollBack, context), usage: usage() };
    if ('health' in job) return { ok: true, data: await lifecycle.health(job.health, context), usage: usage() };
    const tool = await tools.named(job.tool);
    if (!tool) throw new ToolError('INTERNAL', `this host has no tool ${job.tool}`);
    if (job.step !== 'preview') await lifecycle.initialize(tool, context);
    const data = await dataOf(tool, job, context);
    const preview = await context.previewReport();
    return { ok: true, data, usage: { ...usage(), preview }, state: tool.state && context.state };
  } catch (thrown) {
    return failure(thrown, usage());
  }
}

/** Answers the gateway about commands in the background. */
async function backgroundResult(
  asked: BackgroundJob,
  signal: AbortSignal,
  onOutput: CommandRequest['onOutput'],
): Promise<JobResult> {
  const usage: JobUsage = { cpuMs: 0, outputBytes: 0, verdict: 'ok', enforcedBy: 'host' };
  try {
    if (!kept) throw new ToolError('INTERNAL', `tier ${setup.tier} runs no commands`);
    const data = await runBackgroundJob(asked, kept, {
      folder: setup.command?.previewsFolder,
      relay: fileURLToPath(new URL(`./terminals/port-relay${extname(import.meta.url)}`, import.meta.url)),
      limits: setup.limits,
      powers,
      signal,
      onOpen: () => void onOutput?.('stdout', Buffer.from('open')),
    });
    return { ok: true, data, usage };
  } catch (thrown) {
    return failure(thrown, usage);
  }
}

/** Reads a page for a tool. The tool gets no context: it needs nothing of the machine. */
async function readPage(job: Job<PageJob>): Promise<JobResult> {
  const usage = () => ({
    cpuMs: clock.end(job.id),
    outputBytes: job.page.body.length,
    verdict: 'ok' as const,
    enforcedBy: 'worker thread, thread clock',
  });
  try {
    const tool = await tools.named(job.tool);
    const read = tool && runsBy(tool, 'web')?.read;
    if (!read) throw new ToolError('INTERNAL', `this host has no tool ${job.tool} that reads pages`);
    return { ok: true, data: await read(job.input as never, job.page, await pageReader()), usage: usage() };
  } catch (thrown) {
    return failure(thrown, usage());
  }
}

/** Loaded on demand: only one kind of host reads pages, and the others start sooner without its parsers. */
function pageReader(): Promise<Pages> {
  pages ??= import('./pages/pages.ts').then((it) => new it.Pages(setup.limits, threadCpuMs));
  return pages;
}
let pages: Promise<Pages> | undefined;

/** The only catch-alls on this side end here: an unexpected error is INTERNAL for the caller and complete in the log. */
function failure(thrown: unknown, usage: JobUsage): JobResult {
  const error = toToolError(thrown);
  if (error.code === 'INTERNAL') console.error(error.cause ?? error);
  return { ok: false, error: error.toWire(), usage: withRefusal(usage, error) };
}

function dataOf({ preview, before = {}, run: toRun }: Tool, job: ToolJob, context: WorkerContext): Promise<unknown> {
  const { tool, input, step } = job;
  if (step === 'preview' && !preview)
    throw new ToolError('UNSUPPORTED', `${tool} has no preview; call it without preview`);
  const resolve = before.resolve ?? (() => Promise.resolve([]));
  const work = {
    preview,
    resolve,
    prepare: before.prepare ?? toRun,
    plan: before.plan ?? before.requests ?? toRun,
    run: toRun,
  }[step ?? 'run'];
  if (!work) throw new ToolError('INTERNAL', `${tool} runs in no host`);
  return work(input as never, context);
}

const tools = new LoadedTools();
const lifecycle = new ToolLifecycle(tools);

/** Loads and compiles what nearly all calls of a tier need, so that the first one does not wait for it. */
async function prepareFirstCall({ tier, view }: ThreadSetup): Promise<void> {
  pathDecision(view.rules, 'read', '.', view.home);
  await tools.named(USUAL[tier] ?? '');
}

/** The tool of a tier that is called most. */
const USUAL: Partial<Record<ThreadSetup['tier'], string>> = {
  read_only: 'file_read',
  write: 'file_write',
  execute: 'terminal_execute',
};

const endSession = (session: string): Promise<void> =>
  lifecycle.cleanup({ endKept: async () => kept?.endSession(session) });

/** Gives the keys that were rolled back; policy or disk prevented the others. */
async function rollBack(
  { folder, keys }: RollBackJob['rollBack'],
  context: WorkerContext,
): Promise<{ done: string[] }> {
  const done: string[] = [];
  for (const key of keys) {
    try {
      await context.rollBack(new Spool(folder, key));
      done.push(key);
    } catch (error) {
      console.error(error);
    }
  }
  return { done };
}

/** The parts of a job's context beside the job. */
interface Around {
  readonly signal: AbortSignal;
  readonly onOutput: CommandRequest['onOutput'];
  readonly sockets: readonly string[] | undefined;
  readonly overlay: Overlay | undefined;
}

/** Folder of a preview, as this host sees it. Throws UNSUPPORTED. */
function previewFolder(id: string): string {
  const folder = setup.tier === 'write' ? HOST_PREVIEWS : setup.command?.previewsFolder;
  if (folder !== undefined) return join(folder, id);
  throw new ToolError('UNSUPPORTED', 'this host sees no previews');
}

const overlayOf = ({ overlay }: ToolJob): Overlay | undefined =>
  overlay === undefined ? undefined : new Overlay(previewFolder(overlay), setup.workspace as string);

function contextOf(job: OwnJob, { signal, onOutput, sockets, overlay }: Around): WorkerContext {
  if (!anchor || setup.workspace === undefined) throw new ToolError('INTERNAL', `tier ${setup.tier} has no workspace`);
  const { keeper } = job;
  const { preImages, state, planned, kept: keptPreview }: Partial<ToolJob> = 'tool' in job ? job : {};
  return new WorkerContext({
    workspace: setup.workspace,
    anchor,
    view: setup.view,
    masks: job.masks ?? NO_MASKS,
    preImages,
    lifted: job.lifted,
    bounds: job.bounds,
    egressToken: job.egressToken,
    signs: job.signs,
    services: job.services,
    home: job.home,
    sockets,
    state,
    planned,
    readOnly: job.readOnly,
    journal: job.journal,
    overlay,
    ...(keptPreview !== undefined && { keptPreview: previewFolder(keptPreview) }),
    identity: setup.identity,
    limits: setup.limits,
    powers,
    signal,
    ripgrep,
    servers,
    parts,
    command,
    ...(keeper &&
      kept &&
      command && {
        kept: (onGitConfigs) => {
          const asking = { masks: job.masks ?? NO_MASKS, signal, onGitConfigs };
          const given = { kept, setup: command, powers };
          return {
            terminals: terminalsFor(keeper, asking, given),
            background: backgroundFor(keeper, asking, given),
          };
        },
      }),
    onOutput,
  });
}

/** Stores a filter as an unnamed file: each bwrap reads a descriptor of its own to the end, and nothing is left behind. */
function prepare({
  filter,
  ownSocketsFilter,
  homesFolder,
  openFiles,
  ...sandbox
}: NonNullable<HostSetup['command']>): CommandSetup {
  const folder = mkdtempSync(join(tmpdir(), 'ringfence-'));
  try {
    const toFile = (name: string, program: Uint8Array) => {
      writeFileSync(join(folder, name), program);
      return `/proc/self/fd/${openSync(join(folder, name), 'r')}`;
    };
    const { limits } = setup;
    const rlimits = {
      openFiles,
      ...(!setup.groups && { addressMib: limits.commandAddressMb }),
      ...(countsTasksByNamespace(release()) && { threadsPerProcess: limits.commandThreadsMax }),
    };
    const watchdog = new Watchdog(limits, powers);
    const disks = new DiskWatch(limits, powers);
    const groups = setup.groups && new CommandGroups(setup.groups, limits, powers);
    const git = setup.workspace === undefined ? undefined : new GitView(setup.workspace, limits, powers);
    const filterFile = toFile('filter', filter);
    const ownSocketsFilterFile = toFile('own-sockets-filter', ownSocketsFilter);
    const homes = homesFolder === undefined ? undefined : new Homes({ folder: homesFolder, limits, powers });
    const files = { filterFile, ownSocketsFilterFile };
    const gitIdentity = createGitIdentity(setup.identity ?? {});
    const base = { ...sandbox, homes, groups, git, gitIdentity, ...files, limits, rlimits, watchdog, disks };
    return { ...base, waiting: new WaitingSandboxes(base, powers) };
  } finally {
    rmSync(folder, { recursive: true });
  }
}
