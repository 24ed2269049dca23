import type { HostReport } from '../base/call.ts';
import { systemPowers } from '../base/powers.ts';
import { describeOutside, type OutsideProgram } from '../base/protected-names.ts';
import { counted, folderName, showLine } from '../base/text/shown-text.ts';
import type { Client } from '../client/client.ts';
import { type CoarseMask, describeCoarse } from '../sandbox/coarse-masks.ts';
import type { Approval, Grant } from '../store/approvals/approval.ts';
import { agentOf } from '../store/approvals/question-words.ts';
import type { TraceStatus } from '../store/telemetry/tracer.ts';
import { type CliCaller, connect, ifRunning } from './connect.ts';
import { describeHealth, type NamedHealth } from './doctor/tool-health.ts';
import { describeTraces } from './monitor/trace-line.ts';
import { EXIT, harmless, print, printJson } from './output.ts';
import { toLine } from './questions/question.ts';
import { paint, since } from './screen/table.ts';
import { describeUnfollowed, type UnfollowedWorkspace } from './unfollowed.ts';
import type { CliCapability } from './verbs/verbs.ts';

/** What this command line reads of the answer to `status`. */
export interface Status {
  uptimeMs: number;
  version: string;
  pid: number;
  rssBytes: number;
  sessions: number;
  openSessions: {
    sessionId: string;
    client: string;
    principal: string;
    role: string;
    workspace: string;
    calls: number;
    /** Present if no call of the session begins. */
    paused?: { at: string; by: string };
  }[];
  calls: { queued: number; running: number; blocked: number };
  hosts: HostReport[];
  coarseMasks: (CoarseMask & { workspace: string })[];
  unfollowed: UnfollowedWorkspace[];
  outsidePrograms: OutsideProgram[];
  audit: { entries: number; writable: boolean };
  disk: { freeBytes: number; advice?: string };
  /** Present if an operator has paused the daemon. */
  paused?: { at: string; by: string };
  /** Present if traces are sent. */
  traces?: TraceStatus;
  undo: { calls: number; bytes: number };
  listeners: string[];
  confinement: { level: string; missing: string[] };
  /** Present if requested. */
  health?: NamedHealth[];
  policy: { name: string; version: string; rules: number; from: string; configFile?: string; note?: string };
}

const MiB = 1024 * 1024;

/** `ringfence status`. Returns the exit code. */
export async function status(
  flags: { json?: boolean; health?: boolean; short?: boolean },
  caller: CliCaller,
  capabilities: readonly CliCapability[],
): Promise<number> {
  if (flags.short) return shortStatus(caller);
  await using client = await connect({ ...caller, role: 'operator' });
  const it = (await client.request('status', flags.health ? { health: true } : {})) as Status;
  if (flags.json) {
    printJson(it);
    return 0;
  }
  await printHead(it, client);
  if (!it.audit.writable) print('the audit log can not be written: calls that may change something are refused');
  if (it.disk.advice !== undefined)
    print(harmless(`the disk has ${Math.floor(it.disk.freeBytes / MiB)} MiB left: ${it.disk.advice}`));
  if (it.traces) print(harmless(`traces: ${describeTraces(it.traces)}`));
  print(harmless(policyLine(it.policy)));
  if (it.policy.note !== undefined) print(`note: ${it.policy.note}`);
  print(`listening at ${it.listeners.join(', ')}`);
  for (const line of capabilities.flatMap((one) => one.statusLines?.(it) ?? [])) print(harmless(line));
  for (const coarse of it.coarseMasks) print(`hidden in ${showLine(`${coarse.workspace}: ${describeCoarse(coarse)}`)}`);
  for (const workspace of it.unfollowed) print(showLine(describeUnfollowed(workspace)));
  for (const [workspace, programs] of Map.groupBy(it.outsidePrograms, (one) => one.workspace))
    print(showLine(`${workspace}: ${describeOutside(programs)}`));
  for (const host of it.hosts) {
    print(
      `host ${host.tier.padEnd(12)} pid ${host.pid}  ${host.busy}/${host.threads} threads  ${Math.round(host.rssBytes / MiB)} MiB  ${host.cpuMs} ms cpu  ${host.restarts} restarts  ${host.workspace}`,
    );
    for (const { program, pid, rssBytes } of host.children)
      print(harmless(`  runs ${program.padEnd(20)} pid ${pid}  ${Math.round(rssBytes / MiB)} MiB`));
  }
  if (it.health) for (const line of describeHealth(it.health)) print(harmless(line));
  return 0;
}

/** Questions and agents that a first look names. */
const NAMED_MAX = 5;

/** What a person wants to know first, one line each: is it running, who waits, who works, what holds them, how the day was. */
async function printHead(it: Status, client: Client): Promise<void> {
  const nowMs = systemPowers().now();
  const [{ approvals }, { days }, { grants }] = (await Promise.all([
    client.request('approvals.list', {}),
    client.request('audit.daily', { days: 1 }),
    client.request('approvals.grants', {}),
  ])) as [{ approvals: Approval[] }, { days: DayCounts[] }, { grants: Grant[] }];
  const line = (name: string, ...parts: string[]) =>
    print(`  ${paint('dim', name.padEnd(9))} ${showLine(parts.filter(Boolean).join(' · '))}`);
  const { level, missing } = it.confinement;
  line(
    'running',
    `${since(it.uptimeMs)}, ${it.version}, pid ${it.pid}, ${Math.round(it.rssBytes / MiB)} MiB, policy ${it.policy.name}`,
    it.calls.queued > 0 ? `${it.calls.queued} queued` : '',
  );
  if (it.paused) {
    const words = `paused since ${it.paused.at} by ${it.paused.by}: no call begins until \`ringfence resume\``;
    print(`  ${paint('yellow', showLine(words))}`);
  }
  if (approvals.length > 0) printQuestions(approvals, nowMs);
  line('agents', ...agentsIn(it));
  const outside = Map.groupBy(it.outsidePrograms, ({ workspace }) => workspace);
  line(
    'box',
    `level ${level}${missing.length > 0 ? ` (missing: ${missing.join(', ')})` : ''}`,
    it.undo.calls === 0
      ? 'nothing to undo'
      : `undo ready for ${counted(it.undo.calls, 'call')} (${Math.ceil(it.undo.bytes / MiB)} MiB)`,
    ...[...outside].map(
      ([workspace, all]) =>
        `${counted(all.length, 'program')} ${all.length === 1 ? 'follows' : 'follow'} ${folderName(workspace)}`,
    ),
  );
  const [today] = days;
  const doors = grants.flatMap(({ door, decision }) => (door && decision === 'approve' ? [door.target] : []));
  line(
    'today',
    today ? `${counted(today.calls, 'call')}, ${today.failed} failed, ${today.refused} refused` : 'no calls',
    doors.length > 0 ? `${counted(doors.length, 'door')} open: ${doors.slice(0, NAMED_MAX).join(', ')}` : '',
  );
  print('');
}

type DayCounts = Readonly<Record<'calls' | 'failed' | 'refused', number>>;

/** The agents that are connected, each once for its folder. */
function agentsIn({ openSessions }: Status): string[] {
  const agents = openSessions.filter(({ role }) => role === 'agent');
  const byName = Map.groupBy(agents, (it) => `${agentOf(it)} in ${folderName(it.workspace)}`);
  const lines = [...byName].map(([name, all]) => {
    const running = all.reduce((sum, { calls }) => sum + calls, 0);
    const held = all.some(({ paused }) => paused) ? ', paused' : '';
    return `${name} (${running > 0 ? `${running} running` : 'idle'}${held})`;
  });
  if (lines.length === 0) return ['none is connected; `ringfence install` connects yours'];
  const more = lines.length - NAMED_MAX;
  return [...lines.slice(0, NAMED_MAX), ...(more > 0 ? [`and ${more} more`] : [])];
}

function printQuestions(approvals: readonly Approval[], nowMs: number): void {
  const oldest = since(nowMs - Math.min(...approvals.map(({ requestedAt }) => Date.parse(requestedAt))));
  const words = `${counted(approvals.length, 'question')}, the oldest ${oldest}`;
  print(`  ${paint('dim', 'waiting  ')} ${paint(['yellow', 'bold'], words)}   ringfence approvals`);
  for (const it of approvals.slice(0, NAMED_MAX)) print(`            ${toLine(it, nowMs)}`);
}

/** One line for a prompt, `● 2? 1▶`: whether calls begin, what waits for the person, what runs; nothing where no daemon runs. */
async function shortStatus(caller: CliCaller): Promise<number> {
  await ifRunning(caller, async (client) => {
    const { calls, paused } = (await client.request('status', {})) as Status;
    const parts = [
      paused ? '‖' : '●',
      ...(calls.blocked > 0 ? [`${calls.blocked}?`] : []),
      ...(calls.running > 0 ? [`${calls.running}▶`] : []),
    ];
    print(paint(paused ? 'yellow' : calls.blocked > 0 ? 'bold' : 'green', parts.join(' ')));
  });
  return EXIT.OK;
}

/** The policy in force and where it was set. */
function policyLine({ name, rules, version, from, configFile }: Status['policy']): string {
  const who: Record<string, string> = {
    flag: 'by --policy',
    environment: 'by $RINGFENCE_POLICY',
    file: `by ${configFile}`,
    default: 'because no other policy is set',
  };
  return `policy ${name} (${rules} rules, ${version.slice(0, 19)}), ${who[from] ?? from}`;
}
