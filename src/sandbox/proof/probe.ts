/**
 * Tests a sandbox from inside: native/probe.c makes every attempt of probes.ts and reports the results, so that a
 * sandbox is built once for all of them. These tests prove the level that the daemon shows.
 */
import type { ChildProcess } from 'node:child_process';
import { readFileSync, readlinkSync } from 'node:fs';
import type { Limits } from '../../base/limits.ts';
import { type Powers, settlesWithin } from '../../base/powers.ts';
import { firstChildOf } from '../proc.ts';
import {
  allProbes,
  notHeld,
  type OutsideObservations,
  PROBE_IDS,
  PROBES,
  type ProbeId,
  type ProbeOutcomes,
  ProbeReport,
  type ProbeTargets,
} from './probes.ts';

export interface ProbeResult {
  /** Whether everything that level B requires was found to hold. */
  readonly ok: boolean;
  readonly probes: ProbeOutcomes;
  /** One sentence for people; empty when ok. */
  readonly reason: string;
}

/** The program's path in a sandbox: in its own /tmp, since the state directory may forbid programs. */
const PROGRAM = '/tmp/ringfence-probe';

/** bwrap arguments after a profile's: the program, native/probe.c, is read from descriptor `fd`. */
export const probeArgs = (fd: number): string[] => ['--perms', '0700', '--file', `${fd}`, PROGRAM, '--', PROGRAM];

/** The pid namespace of this process, for `ProbeTargets`. */
export const ownPidNamespace = (): string => readlinkSync('/proc/self/ns/pid');

/** Runs the attempts in a program that was started with pipes at 0 and 1; waits at most `probeMs`, and leaves no process behind. */
export async function runProbe(
  child: ChildProcess,
  { aims, limits, powers }: { aims: ProbeTargets; limits: Limits; powers: Powers },
): Promise<ProbeResult> {
  const { canary, daemonPid, port } = aims;
  // EPIPE: the program has ended; its exit tells why.
  child.stdin?.on('error', () => {}).write([canary, daemonPid, port].map((it) => `${it}\0`).join(''));
  const timer = powers.after(limits.probeMs, () => child.kill('SIGKILL'));
  const closed = new Promise<void>((resolve) => child.once('close', () => resolve()));
  const ended = endOf(child);
  const { told, memoryLimited } = await listen(child);
  // The program has reported everything and waits for this.
  child.stdin?.end();
  const failure = await ended;
  timer.cancel();
  const survived = !(await settlesWithin(closed, limits.probeSurvivorMs, powers));
  for (const stream of child.stdio) stream?.destroy();

  if (!told.out.endsWith(END)) {
    const complaint = told.err.trim().split('\n')[0] || failure || 'the probe said nothing';
    return { ok: false, probes: allProbes('unknown'), reason: notBuilt(complaint) };
  }
  const report = new ProbeReport(told.out);
  if (survived) endSurvivor(report, aims);
  return toResult(report, aims, { survived, memoryLimited });
}

function toResult(report: ProbeReport, aims: ProbeTargets, outside: OutsideObservations): ProbeResult {
  const outcomes = PROBE_IDS.map((id) => [id, PROBES[id].judge(report, aims, outside)]);
  const probes = Object.fromEntries(outcomes) as ProbeOutcomes;
  const open = notHeld(probes);
  if (open.length === 0) return { ok: true, probes, reason: '' };
  const openProbes = open.map((id) => `${id} ${probes[id]}`).join(', ');
  return {
    ok: false,
    probes,
    reason: `The sandbox of this machine does not hold: ${openProbes}. ${PROBES[open[0] as ProbeId].fix}`,
  };
}

/** The last line of a complete report. */
const END = '\nend\n';

interface ProbeOutput {
  out: string;
  err: string;
}

/** Reads until the report is complete or the program has ended. Checks its control group while it still runs. */
async function listen(child: ChildProcess): Promise<{ told: ProbeOutput; memoryLimited: boolean | undefined }> {
  const output: ProbeOutput = { out: '', err: '' };
  child.stderr?.on('data', (chunk) => (output.err += chunk));
  let memoryLimited: boolean | undefined;
  await new Promise<void>((resolve) => {
    child.stdout?.on('data', (chunk: Buffer) => {
      output.out += chunk.toString('latin1');
      if (!output.out.endsWith(END)) return;
      memoryLimited = hasMemoryLimit(innermost(child.pid as number));
      resolve();
    });
    child.stdout?.once('close', resolve);
  });
  return { told: output, memoryLimited };
}

/** Why the program failed; empty if it did not. */
function endOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('exit', (code, signal) => resolve(signal ?? (code === 0 ? '' : `exit status ${code}`)));
  });
}

/** Kills the survivor. Its pid is valid here only if it is in our pid namespace; elsewhere it ends by itself in seconds. */
function endSurvivor(report: ProbeReport, { pidNamespace }: ProbeTargets): void {
  if (report.text('pid-ns') !== pidNamespace) return;
  try {
    process.kill(report.result('survivor'), 'SIGKILL');
  } catch {
    // ESRCH: already ended.
  }
}

/** Bytes from which cgroup v1 means no limit. */
const UNLIMITED = 2 ** 62;

/** The last process in a chain of launchers. */
function innermost(pid: number): number {
  const child = firstChildOf(pid);
  return child === undefined ? pid : innermost(child);
}

/** Whether a process is in another memory group than this one, and that group is limited. */
function hasMemoryLimit(pid: number): boolean | undefined {
  try {
    const [theirs, ours] = [memoryGroup(`${pid}`), memoryGroup('self')];
    if (theirs === undefined || ours === undefined) return undefined;
    if (theirs.path === ours.path) return false;
    const limit = readFileSync(theirs.limitFile, 'utf8').trim();
    return limit !== 'max' && Number(limit) < UNLIMITED;
  } catch {
    return undefined; // The process has ended, or we may not see its group.
  }
}

function memoryGroup(pid: string): { path: string; limitFile: string } | undefined {
  const lines = readFileSync(`/proc/${pid}/cgroup`, 'utf8').trim().split('\n');
  const v1 = lines.find((it) => /^\d+:([^:]*,)?memory(,[^:]*)?:/.test(it))?.replace(/^[^:]*:[^:]*:/, '');
  if (v1 !== undefined) return { path: v1, limitFile: `/sys/fs/cgroup/memory${v1}/memory.limit_in_bytes` };
  const v2 = lines.find((it) => it.startsWith('0::'))?.slice(3);
  return v2 === undefined ? undefined : { path: v2, limitFile: `/sys/fs/cgroup${v2}/memory.max` };
}

function notBuilt(complaint: string): string {
  const why = `bubblewrap could not build the sandbox (${complaint}).`;
  if (!/uid map|namespace|permission|not permitted/i.test(complaint)) return why;
  return `${why} ${USERNS_FIX}`;
}

/** How to allow unprivileged user namespaces. */
export const USERNS_FIX =
  'Allow unprivileged user namespaces: sysctl kernel.unprivileged_userns_clone=1, or on Ubuntu 24.04 and later an AppArmor profile with "userns," for /usr/bin/bwrap.';
