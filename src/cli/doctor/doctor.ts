/** `ringfence doctor`: checks whether calls would run here, and says what to do otherwise. Works with or without a daemon. */

import { accessSync, constants, existsSync, mkdtempDisposableSync, statfsSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defaultLimits, type Limits } from '../../base/limits.ts';
import { type Powers, systemPowers } from '../../base/powers.ts';
import { runtime, version } from '../../base/runtime.ts';
import { showLine } from '../../base/text/shown-text.ts';
import type { Client } from '../../client/client.ts';
import { type Config, ConfigError, loadConfig } from '../../daemon/config.ts';
import { findUserDirs, isOursAlone, StateDirError, type UserDirs } from '../../daemon/user-dirs.ts';
import { PolicyError, readPolicy } from '../../policy/load.ts';
import { describeCoarse } from '../../sandbox/coarse-masks.ts';
import { whyNoGitCopies } from '../../sandbox/git/config/probe.ts';
import { type Outcome, PROBE_IDS, PROBES, type ProbeId } from '../../sandbox/proof/probes.ts';
import { type Confinement, createSandbox } from '../../sandbox/sandbox.ts';
import { SchemaError, schemaVersion } from '../../store/state-schema.ts';
import { effectsOfBuiltin as effectsOf } from '../../tools/registry.ts';
import { type CliCaller, type ConnectFlags, connect, userDirsOf } from '../connect.ts';
import { describeTraces, losesTraces } from '../monitor/trace-line.ts';
import { CliError, EXIT, harmless, print, printJson } from '../output.ts';
import { paint } from '../screen/table.ts';
import type { Status } from '../status.ts';
import { describeUnfollowed } from '../unfollowed.ts';
import { capabilities } from '../verbs/capabilities.ts';
import { type DoctorFinding, findingsOf, judgeMachine, readMachine } from './machine.ts';
import { type MissingSwitch, missingSwitch } from './missing-switch.ts';
import { judgeNetwork } from './network.ts';
import { judgePreviews } from './previews.ts';
import { judgeServices } from './services.ts';
import { readSystem } from './system.ts';
import { badHealth, type NamedHealth } from './tool-health.ts';

export interface DoctorFlags extends Omit<ConnectFlags, 'workspace' | 'autostart'> {
  readonly workspace?: readonly string[];
  readonly json?: boolean;
}

interface ReportedProbe {
  readonly id: ProbeId;
  readonly result: Outcome;
  readonly shows: string;
  readonly layer: string;
  /** Absent if the probe succeeds. */
  readonly fix?: string;
}

/** Runs all checks and prints them. Returns 0 if every tier would run, 1 otherwise. */
export async function doctor(flags: DoctorFlags, caller: CliCaller): Promise<number> {
  const powers = systemPowers();
  const dirs = findUserDirs(flags, caller.env);
  const { config, finding } = readConfig(flags, caller);
  const limits = config?.limits ?? defaultLimits;
  const confinement = await probe({ config, dirs, limits }, powers);
  const machine = readMachine();
  const cause = missingSwitch(
    readSystem({ isRoot: machine.isRoot, hasBwrap: machine.bwrap !== undefined }),
    confinement.advice,
  );
  const findings = [
    ...judgeMachine(machine),
    finding,
    ...(config ? [judgePolicy(config), ...judgeOwners(config), ...(await judgeNetwork(config))] : []),
    ...judgeState(dirs, limits),
    ...(await judgeDaemon(caller, { dirs, limits, powers })),
    judgeConfinement(confinement, cause),
    judgeGitCopies(await whyNoGitCopies(powers)),
    previewsAt(dirs.stateDir),
  ];
  const probes = PROBE_IDS.map((id): ReportedProbe => {
    const { shows, layer, fix } = PROBES[id];
    const result = confinement.probes[id];
    return { id, result, shows, layer, ...(result !== 'ok' && { fix }) };
  });
  const { level, missing } = confinement;
  const ok = findings.every((it) => it.status !== 'problem');
  if (flags.json) printJson({ ok, version, level, missing, cause, findings, probes });
  else show(findings, probes);
  return ok ? EXIT.OK : EXIT.FAILED;
}

/** Loads the configuration as `ringfence serve` with the same flags would. */
function readConfig(flags: DoctorFlags, { env, cwd }: CliCaller): { config?: Config; finding: DoctorFinding } {
  const { ok, problem } = findingsOf('configuration');
  try {
    const config = loadConfig(flags, env, cwd);
    return { config, finding: ok(`workspace ${config.workspaces.join(', ')}`) };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (!(error instanceof ConfigError || error instanceof StateDirError) && code === undefined) throw error;
    const fix = 'Give `ringfence doctor` and `ringfence serve` other flags, or change config.yaml.';
    return { finding: problem((error as Error).message, fix) };
  }
}

/** Runs the sandbox probes in a temporary folder, so that a daemon's own results stay unchanged. */
async function probe(
  { config, dirs, limits }: { config: Config | undefined; dirs: UserDirs; limits: Limits },
  powers: Powers,
): Promise<Confinement> {
  using state = ownFolder(dirs.stateDir);
  using workspace = ownFolder(tmpdir());
  const { arch, platform } = process;
  const machine = { arch, platform, version, cgroup: config?.cgroup };
  const folders = { stateDir: state.path, workspaces: config?.workspaces ?? [workspace.path] };
  await using sandbox = await createSandbox({ runtime, ...folders, limits, ...machine }, powers);
  return sandbox.confinement;
}

/** A temporary folder in `parent`, or in the system's folder if `parent` is not writable or full, which another finding reports. */
function ownFolder(parent: string) {
  const temporary = join(tmpdir(), 'ringfence-doctor-');
  try {
    return mkdtempDisposableSync(
      freeBytesAt(parent) < DISK_NEEDED_BYTES ? temporary : join(parent, 'ringfence-doctor-'),
    );
  } catch {
    return mkdtempDisposableSync(temporary); // ENOENT, EACCES, ENOSPC
  }
}

/** Judges the level that the probes showed. `cause` is the one thing to change, if it is known. */
function judgeConfinement({ level, missing, advice }: Confinement, cause: MissingSwitch | undefined): DoctorFinding {
  const { ok, warning, problem } = findingsOf('confinement');
  const why = cause ? `: ${cause.found}` : '';
  const found = `level ${level}${missing.length > 0 ? `, missing: ${missing.join(', ')}` : ''}${why}`;
  if (level !== 'A' && level !== 'B') return problem(found, cause?.fix ?? advice);
  const elsewhere = `Run Ringfence on a machine or in a container that allows nested sandboxes. ${advice}`;
  if (missing.includes('execute-host')) return warning(found, cause?.fix ?? elsewhere);
  if (missing.includes('root-workspace'))
    return warning(found, 'Run Ringfence as an ordinary user, on folders which that user owns.');
  return ok(found);
}

/** Warns if configs of git can't be copied for commands, which then see them read-only. */
function judgeGitCopies(why: string | undefined): DoctorFinding {
  const { ok, warning } = findingsOf('git-config');
  if (why === undefined) return ok('git in commands can set up remotes, branches and submodules');
  const found = `commands see the configs of repositories read-only: ${why}`;
  return warning(found, 'Install util-linux and bubblewrap from your distribution.');
}

/** Tries a preview's overlay where the state is. */
function previewsAt(stateDir: string): DoctorFinding {
  using folder = ownFolder(stateDir);
  return judgePreviews(folder.path);
}

/** Hosts run as the owner of a workspace, who can't enter the state of a daemon of root. */
function judgeOwners({ workspaces }: Config): DoctorFinding[] {
  const other = process.getuid?.() === 0 ? workspaces.find((it) => statSync(it).uid !== 0) : undefined;
  if (other === undefined) return [];
  const found = `${other} belongs to uid ${statSync(other).uid}: for a daemon of root nothing there can be undone or previewed, and the home of commands does not last`;
  return [findingsOf('owner').warning(showLine(found), 'Run Ringfence as that user.')];
}

function judgePolicy({ policy, limits }: Config): DoctorFinding {
  const { ok, problem } = findingsOf('policy');
  try {
    const { policy: read } = readPolicy(policy, { limits, effectsOf });
    return ok(`${policy}: ${read.rules.length} rules`);
  } catch (error) {
    if (!(error instanceof PolicyError)) throw error;
    return problem(error.message, `ringfence policy check ${policy}`);
  }
}

/** Checks who else can access the daemon's files, and whether the disk has room for them. */
function judgeState({ stateDir, socket }: UserDirs, { auditBytesMax }: Limits): DoctorFinding[] {
  const findings = [unwritable(stateDir) ?? judgeOwner('state', stateDir), judgeOwner('socket', socket)];
  if (!existsSync(stateDir)) return findings;
  const free = freeBytesAt(stateDir);
  const found = `${Math.round(free / 2 ** 20)} MiB free at ${stateDir}`;
  const fix = `Free disk space: the audit log alone may use ${Math.round(auditBytesMax / 2 ** 20)} MiB. Kept outputs and undo data shrink on their own.`;
  const { ok, warning, problem } = findingsOf('disk');
  const scarce = free < DISK_NEEDED_BYTES ? problem : warning;
  return [...findings, judgeSchema(stateDir), free < auditBytesMax ? scarce(found, fix) : ok(found)];
}

/** Whether this version can use the state, which a newer one may have written. */
function judgeSchema(stateDir: string): DoctorFinding {
  const { ok, problem } = findingsOf('schema');
  try {
    const found = schemaVersion(stateDir);
    return ok(found === undefined ? 'the state has no schema version yet' : `version ${found}`);
  } catch (error) {
    if (!(error instanceof SchemaError)) throw error;
    return problem(error.message, 'Do one of what the message names; the state is whole.');
  }
}

/** Throws the system's error. */
function freeBytesAt(path: string): number {
  const { bavail, bsize } = statfsSync(path);
  return bavail * bsize;
}

/** Bytes that a daemon's databases take before the first call. */
const DISK_NEEDED_BYTES = 4 * 1024 * 1024;

/** A finding if the directory can't be written; undefined if it can, or does not exist yet. */
function unwritable(path: string): DoctorFinding | undefined {
  try {
    accessSync(path, constants.W_OK);
    return undefined;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return undefined;
    return findingsOf('state').problem(`${path} can't be written (${code})`, 'Choose another directory with --state.');
  }
}

function judgeOwner(id: string, path: string): DoctorFinding {
  const { ok, warning, problem } = findingsOf(id);
  const elsewhere = 'Choose another path with --state or --socket.';
  const stat = statSync(path, { throwIfNoEntry: false });
  if (!stat) return ok(`${path} does not exist yet`);
  if (stat.uid !== process.getuid?.()) return problem(`${path} belongs to uid ${stat.uid}`, elsewhere);
  const found = `${path}, mode ${(stat.mode & 0o777).toString(8)}`;
  if ((stat.mode & 0o077) === 0) return ok(found);
  // Advises changing the mode only of Ringfence's own directories: others may need /tmp as it is.
  return warning(found, !stat.isDirectory() || isOursAlone(path) ? `chmod go= ${path}` : elsewhere);
}

/** Checks the daemon. A daemon that hangs becomes a finding and does not block; its tools get extra time to answer. */
async function judgeDaemon(
  caller: CliCaller,
  { dirs, limits, powers }: { dirs: UserDirs; limits: Limits; powers: Powers },
): Promise<DoctorFinding[]> {
  const { promise, resolve } = Promise.withResolvers<DoctorFinding[]>();
  const fix = 'Run `ringfence stop` or end its process, then start the daemon again.';
  const found = `something at ${dirs.socket} does not answer`;
  const giveUpAfter = (afterMs: number) =>
    powers.after(afterMs, () => resolve([findingsOf('daemon').problem(found, fix)]));
  let timer = giveUpAfter(limits.helloTimeoutMs);
  const onStatus = () => {
    timer.cancel();
    timer = giveUpAfter(limits.helloTimeoutMs + limits.healthCheckMs);
  };
  return Promise.race([askDaemon(caller, onStatus), promise]);
}

/** Whether the collector takes the traces; empty if none are sent. */
function judgeTraces({ traces }: Status): DoctorFinding[] {
  if (!traces) return [];
  const { ok, warning } = findingsOf('traces');
  const found = showLine(describeTraces(traces));
  if (!losesTraces(traces)) return [ok(found)];
  return [warning(found, 'Check the collector, and `telemetry.traces` of config.yaml.')];
}

/** Whether more is hidden from commands than the policy says. */
function judgeMasks({ coarseMasks }: Status): DoctorFinding {
  const { ok, warning } = findingsOf('masks');
  const [first] = coarseMasks;
  if (!first) return ok('commands can see all files except those that the policy hides');
  const more = coarseMasks.length > 1 ? `; and ${coarseMasks.length - 1} more` : '';
  const found = showLine(`in ${first.workspace}, ${describeCoarse(first)}${more}`);
  return warning(found, 'List all of them with `ringfence status`.');
}

/** Whether commands can be undone, and what they change is known at once. */
function judgeFollowers({ unfollowed }: Status): DoctorFinding[] {
  const fix = 'Work in a smaller folder of it, move what is deep or large out of it, or raise the limit that is named.';
  return unfollowed.map((it) => findingsOf('follower').warning(showLine(describeUnfollowed(it)), fix));
}

/** Whether tools of the daemon or services of others would fail, which it asks now. */
async function judgeHealth(client: Client): Promise<DoctorFinding[]> {
  const answer = (await client.request('status', { health: true }).catch(() => ({}))) as { health?: NamedHealth[] };
  return [...judgeTools(answer), ...judgeServices(answer)];
}

/** Whether tools would fail, for example for a missing program. */
function judgeTools({ health }: { health?: NamedHealth[] }): DoctorFinding[] {
  const { ok, warning } = findingsOf('tools');
  if (!health) return [];
  const bad = badHealth(health);
  if (bad.length === 0) return [ok(`all ${health.length} tools that can check themselves work`)];
  const fix = 'Repair what the message names, then check again with `ringfence status --health`.';
  return [warning(showLine(bad.join('; ')), fix)];
}

async function askDaemon(caller: CliCaller, onStatus: () => void): Promise<DoctorFinding[]> {
  const { ok, warning, problem } = findingsOf('daemon');
  try {
    await using client = await connect({ ...caller, role: 'operator' });
    const it = (await client.request('status', {})) as Status;
    onStatus();
    const found = `pid ${it.pid}, version ${it.version}, level ${it.confinement.level}`;
    const dirs = userDirsOf(caller.flags, caller.env);
    const health = await judgeHealth(client);
    const checked = await Promise.all(capabilities.map(async (one) => one.checks?.(client, dirs) ?? []));
    const more = [judgeMasks(it), ...judgeFollowers(it), ...judgeTraces(it), ...health, ...checked.flat()];
    const fix = `Run \`ringfence stop\`, then start the daemon again; this program is version ${version}.`;
    return [it.version === version ? ok(found) : warning(found, fix), ...more];
  } catch (error) {
    if (error instanceof CliError) return [ok('no daemon runs; the first call starts one')];
    return [problem((error as Error).message, 'Run `ringfence stop`, then start the daemon again.')];
  }
}

const STYLES = { ok: 'green', warning: 'yellow', problem: 'red' } as const;

function show(findings: readonly DoctorFinding[], probes: readonly ReportedProbe[]): void {
  const rows = [
    ...findings.map(({ id, status, found, fix }) => ({ id, status, text: found, fix })),
    ...probes.map(({ id, result, shows, fix }) => ({ id, ...toRow(id, result, shows), fix })),
  ];
  const width = Math.max(...rows.map(({ id }) => id.length));
  for (const { id, status, text, fix } of rows) {
    print(`${paint(STYLES[status], status.padEnd(8))} ${id.padEnd(width)}  ${harmless(text)}`);
    if (status !== 'ok' && fix !== undefined)
      print(`${' '.repeat(8)} ${' '.repeat(width)}  → ${paint('bold', harmless(fix))}`);
  }
  const problems = rows.filter((it) => it.status === 'problem').length;
  const warnings = rows.filter((it) => it.status === 'warning').length;
  print(problems === 0 ? `calls can run here; ${warnings} warnings` : `calls can't run here: ${problems} problems`);
}

function toRow(id: ProbeId, result: Outcome, shows: string): { status: DoctorFinding['status']; text: string } {
  if (result === 'ok') return { status: 'ok', text: shows };
  const how = result === 'unknown' ? 'unknown whether enforced:' : 'not enforced:';
  return { status: PROBES[id].level === 'A' ? 'warning' : 'problem', text: `${how} ${shows}` };
}
