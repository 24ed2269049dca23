/**
 * `ringfence ci -- COMMAND`: runs the command of a CI job beside a daemon of its own, keeps the record of all calls, and
 * ends with an exit code that says whether one was denied or left open. Nothing of the daemon is left behind.
 */
import { appendFileSync, closeSync, mkdirSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { defaultLimits } from '../../base/limits.ts';
import { systemPowers } from '../../base/powers.ts';
import { findUserDirs } from '../../daemon/user-dirs.ts';
import { unpackBundle } from '../../policy/bundle/collect.ts';
import { PolicyError, readPolicy } from '../../policy/load.ts';
import { toExportLine } from '../../store/audit/export.ts';
import { AuditReader } from '../../store/audit/reader.ts';
import { effectsOfBuiltin as effectsOf } from '../../tools/registry.ts';
import { allEntries } from '../audit/audit.ts';
import { offlineClient } from '../audit/offline.ts';
import { type CliCaller, connect, startDaemon } from '../connect.ts';
import { EXIT, harmless, printJson, say, UsageError } from '../output.ts';
import { stop } from '../stop.ts';
import { type JobPolicyFlags, jobPolicy } from './job-policy.ts';
import { CallCounter, type JobReport, toMarkdown } from './job-report.ts';

export interface CiFlags extends JobPolicyFlags {
  readonly json?: boolean;
  /** Folders that agents may work in; the current one when absent. */
  readonly workspace?: readonly string[];
  /** The file of the record. */
  readonly audit: string;
  /** A file to which the summary is added. */
  readonly summary?: string;
  readonly failOn: 'denied' | 'open' | 'nothing';
}

/** A daemon of the job, with its state in a folder of its own. */
interface JobDaemon {
  readonly caller: CliCaller;
  readonly stateDir: string;
  readonly policy: JobReport['policy'];
  readonly confinement: string;
}

/** Runs the job; returns its exit code. Throws UsageError before anything has run. */
export async function ci(command: readonly string[], flags: CiFlags, caller: CliCaller): Promise<number> {
  if (command.length === 0)
    throw new UsageError('say which command to run: ringfence ci [options] -- COMMAND [ARGUMENT…]');
  const { env, cwd } = caller;
  const summary = flags.summary ?? env.GITHUB_STEP_SUMMARY;
  const auditFile = openForWriting(resolve(cwd, flags.audit));
  const stateDir = mkdtempSync(join(tmpdir(), 'ringfence-ci-'));
  try {
    const { policy, digest } = await policyOf(flags, cwd, join(stateDir, 'policy'));
    const daemon = await startJobDaemon(policy, { flags, env, cwd, stateDir }, digest);
    const startedAt = systemPowers().now();
    const exitCode = await runCommand(command, { flags, daemon, cwd });
    const durationMs = systemPowers().now() - startedAt;
    await stop(daemon.caller);
    const { policy: inForce, confinement } = daemon;
    const report: JobReport = {
      policy: inForce,
      confinement,
      exitCode,
      durationMs,
      ...(await readRecord(join(stateDir, 'audit.db'), auditFile)),
    };
    if (summary) appendFileSync(resolve(cwd, summary), toMarkdown(report));
    tell(report, flags);
    return exitCodeOf(report, flags.failOn);
  } finally {
    closeSync(auditFile);
    rmSync(stateDir, { recursive: true, force: true });
  }
}

/** Finds the policy and puts its files into a new folder, where nobody changes them. Throws UsageError if it is refused. */
async function policyOf(
  flags: CiFlags,
  cwd: string,
  folder: string,
): Promise<{ readonly policy: string; readonly digest?: string }> {
  try {
    const bundle = await jobPolicy(flags, cwd);
    if (bundle === undefined) return { policy: flags.policy };
    mkdirSync(folder, { mode: 0o700 });
    const policy = unpackBundle(bundle, folder);
    readPolicy(policy, { effectsOf });
    return { policy, digest: bundle.digest };
  } catch (error) {
    if (!(error instanceof PolicyError)) throw error;
    const problems = harmless(error.message.replaceAll(`${folder}/`, ''));
    throw new UsageError(`nothing was run, since the policy is refused:\n${problems}`);
  }
}

/** Opens the file of the record before the job runs, so that a job whose record could not be kept does not begin. Throws UsageError. */
function openForWriting(path: string): number {
  try {
    return openSync(path, 'w', 0o600);
  } catch (error) {
    throw new UsageError(`the record can't be written to ${path}: ${(error as NodeJS.ErrnoException).code}`);
  }
}

async function startJobDaemon(
  policy: string,
  { flags, env, cwd, stateDir }: { flags: CiFlags; env: CliCaller['env']; cwd: string; stateDir: string },
  digest: string | undefined,
): Promise<JobDaemon> {
  const workspaces = (flags.workspace ?? ['.']).flatMap((it) => ['--workspace', resolve(cwd, it)]);
  const where = { state: stateDir, socket: join(stateDir, 'ringfence.sock') };
  const { confinement } = await startDaemon(findUserDirs(where, env), ['--policy', policy, ...workspaces], {
    env,
    cwd,
  });
  const caller: CliCaller = { flags: { ...where, autostart: false }, env, cwd };
  await using client = await connect({ ...caller, role: 'operator' });
  const { policy: inForce } = (await client.request('status', {})) as { policy: { name: string; version: string } };
  // An unpacked policy has the path of a temporary file as its name, which is gone when somebody reads the summary.
  const name = digest === undefined ? inForce.name : flags.policy;
  return {
    caller,
    stateDir,
    confinement: confinement.level,
    policy: { name, version: inForce.version, digest },
  };
}

/** Runs the command to its end and passes signals on to it; returns its exit code, 128 + n if signal n ended it. */
async function runCommand(
  [program, ...args]: readonly string[],
  { flags, daemon, cwd }: { flags: CiFlags; daemon: JobDaemon; cwd: string },
): Promise<number> {
  const { env, flags: where } = daemon.caller;
  const { execa } = await import('execa');
  const child = execa(program as string, args, {
    cwd,
    // With --json, standard output holds the report and nothing else.
    stdio: ['inherit', flags.json ? 2 : 'inherit', 'inherit'],
    env: { ...env, RINGFENCE_STATE: where.state, RINGFENCE_SOCKET: where.socket },
    extendEnv: false,
    reject: false,
    forceKillAfterDelay: false,
  });
  const signals = ['SIGINT', 'SIGTERM'] as const;
  const pass = (signal: NodeJS.Signals) => void child.kill(signal);
  for (const it of signals) process.on(it, pass);
  try {
    const { exitCode, signal, code, shortMessage } = await child;
    if (exitCode !== undefined) return exitCode;
    if (signal !== undefined) return 128 + (constants.signals[signal as NodeJS.Signals] ?? 0);
    say(harmless(`${program} did not start: ${shortMessage ?? code ?? 'no reason given'}`));
    return 127;
  } finally {
    for (const it of signals) process.off(it, pass);
  }
}

/** Writes all entries of the log to an open file, counts them and checks that none is missing. */
async function readRecord(path: string, file: number): Promise<Pick<JobReport, 'calls' | 'listed' | 'audit'>> {
  using reader = new AuditReader(path, defaultLimits, systemPowers());
  const client = offlineClient(reader);
  const counter = new CallCounter();
  for await (const entry of allEntries({ order: 'oldest' }, client)) {
    writeSync(file, `${toExportLine('jsonl', entry)}\n`);
    counter.add(entry);
  }
  const { ok, entries, reason } = await reader.verify();
  const { head, calls, listed } = counter.end();
  return { calls, listed, audit: { ok, entries, head, reason } };
}

function tell(report: JobReport, { json, audit }: CiFlags): void {
  const { calls, audit: record } = report;
  if (json) printJson(report);
  const { total, failed, denied, open } = calls;
  say(`${total} calls: ${failed} failed, ${denied} denied, ${open} left open`);
  for (const it of report.listed) say(harmless(`${it.code}: ${it.tool}: ${it.what}${it.rule ? ` (${it.rule})` : ''}`));
  if (record.ok) say(`the record is whole: ${record.entries} entries in ${audit}`);
  else say(harmless(`the record is broken: ${record.reason ?? 'no reason given'}`));
}

/** A broken record comes first, since nothing else can be believed then; next what the command itself said. */
function exitCodeOf({ audit, exitCode, calls }: JobReport, failOn: CiFlags['failOn']): number {
  if (!audit.ok) return EXIT.FAILED;
  if (exitCode !== 0) return exitCode;
  if (failOn === 'denied' && calls.denied > 0) return EXIT.DENIED;
  return failOn !== 'nothing' && calls.open > 0 ? EXIT.LIMITED : EXIT.OK;
}
