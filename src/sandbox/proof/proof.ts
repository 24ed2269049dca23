/**
 * Proves a sandbox by running its probes at start. A complete proof is stored in the state directory, which no sandbox sees,
 * and is valid as long as everything that it depends on is unchanged; an incomplete one is repeated at each start,
 * since a remedy (a sysctl, an AppArmor profile) may not be visible here.
 */
import type { ChildProcess } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { release } from 'node:os';
import { dirname, join } from 'node:path';
import * as z from 'zod';
import type { Limits } from '../../base/limits.ts';
import type { Powers } from '../../base/powers.ts';
import { textAt } from '../../base/quiet/reads.ts';
import { jsonOr } from '../../base/text/json.ts';
import { ownPidNamespace, type ProbeResult, runProbe } from './probe.ts';
import { notHeld, PROBE_IDS, type ProbeOutcomes, type ProbeTargets } from './probes.ts';

/** A sandbox to test: everything that defines it, and the start of the probe program in it. */
interface ProofTrial {
  readonly launch: object;
  readonly start: () => ChildProcess;
}

interface ProofRequest {
  /** State directory of the daemon, or the doctor's own, which holds no proof. */
  readonly stateDir: string;
  readonly version: string;
  readonly bwrap: string;
  readonly workspace: string;
  /** Names of all variables in a launcher's environment. */
  readonly variables: readonly string[];
  readonly limits: Limits;
  /** The control groups in which it is tested; absent if there are none. */
  readonly groups?: object | undefined;
  /** A command's sandbox within an execute host's sandbox, and by itself. */
  readonly within: ProofTrial;
  readonly without: ProofTrial;
}

interface Proof {
  readonly within: ProbeResult;
  readonly without: ProbeResult;
}

const proofRecord = z.strictObject({
  key: z.string(),
  probes: z.strictObject(Object.fromEntries(PROBE_IDS.map((id) => [id, z.enum(['ok', 'leaks', 'unknown'])]))),
});

/** The stored proof, or a new one; the log says which. */
export async function prove(request: ProofRequest, powers: Powers): Promise<Proof> {
  const file = join(request.stateDir, 'sandbox-proof.json');
  const key = keyOf(request);
  const before = load(file, key);
  if (before) {
    powers.log.info({ probes: before, cached: PROBE_IDS }, 'sandbox: reusing the probe results since the last boot');
    const result = { ok: true, probes: before, reason: '' };
    return { within: result, without: result };
  }
  const from = powers.monotonicMs();
  const proof = await tryBoth(request, powers);
  const { probes, ok } = proof.within;
  const ms = Math.round(powers.monotonicMs() - from);
  powers.log.info({ probes, cached: [], without: proof.without.ok, ms }, 'sandbox: probed');
  if (ok) writeFileSync(file, JSON.stringify({ key, probes }), { mode: 0o600 });
  return proof;
}

async function tryBoth(request: ProofRequest, powers: Powers): Promise<Proof> {
  const { stateDir, variables, limits } = request;
  const canary = join(stateDir, 'canary');
  writeFileSync(canary, 'No sandbox sees this.\n', { mode: 0o600 });
  await using listener = await listenOnLoopback();
  const { port } = listener;
  const aims: ProbeTargets = { canary, daemonPid: process.pid, pidNamespace: ownPidNamespace(), port, variables };
  const run = ({ start }: ProofTrial) => runProbe(start(), { aims, limits, powers });
  const [within, without] = await Promise.all([run(request.within), run(request.without)]);
  return { within, without };
}

/** Opens a loopback port that answers until disposed of. */
async function listenOnLoopback(): Promise<AsyncDisposable & { port: number }> {
  const server = createServer((socket) => socket.destroy());
  const port = await new Promise<number>((resolve) => {
    // On a machine without loopback no port can be reached.
    server.once('error', () => resolve(1));
    server.listen(0, '127.0.0.1', () => resolve((server.address() as { port: number }).port));
  });
  return {
    port,
    [Symbol.asyncDispose]: () => new Promise<void>((resolve) => void server.close(() => resolve())),
  };
}

/** Settings that user namespaces depend on and that may change while the machine runs. */
const SETTINGS = [
  '/proc/sys/kernel/unprivileged_userns_clone',
  '/proc/sys/kernel/apparmor_restrict_unprivileged_userns',
  '/proc/sys/user/max_user_namespaces',
];

/**
 * Hash of everything that a proof depends on: this boot, its kernel and settings, bubblewrap, our user, and the exact arguments. In place
 * of the names of workspace and state directory stand the folder, file system and owner of each: of two that agree in them, a sandbox
 * shows the same.
 */
function keyOf({ version, bwrap, groups, stateDir, workspace, within, without }: ProofRequest): string {
  const { ino, size, ctimeMs } = statSync(bwrap);
  const parts = [
    ...[text('/proc/sys/kernel/random/boot_id'), release(), version, process.getuid?.(), process.getgid?.()],
    // Another build of the same bubblewrap version counts as another one too.
    ...[bwrap, ino, size, ctimeMs, SETTINGS.map(text), PROBE_IDS, groups ?? null, within.launch, without.launch],
  ];
  const place = (folder: string, name: string) => {
    const { dev, uid } = statSync(folder);
    return join(dirname(folder), `<${name} ${dev} ${uid}>`);
  };
  const named = JSON.stringify(parts)
    .replaceAll(stateDir, place(stateDir, 'state'))
    .replaceAll(workspace, place(workspace, 'workspace'))
    // Homes and previews of a workspace are named by a hash of its path.
    .replaceAll(/(<state [\d ]+>\/\w+\/)[0-9a-f]{32}\b/g, '$1<hash>');
  return createHash('sha256').update(named).digest('hex');
}

const text = (path: string): string => (existsSync(path) ? readFileSync(path, 'utf8').trim() : '');

/** Loads a stored proof; undefined also if the file is damaged: then it is proven again. */
function load(file: string, key: string): ProbeOutcomes | undefined {
  // The file is missing, or not JSON if the daemon was killed while it wrote.
  const parsed = proofRecord.safeParse(jsonOr(textAt(file) ?? '', undefined), { jitless: true });
  if (!parsed.success || parsed.data.key !== key) return undefined;
  const probes = parsed.data.probes as ProbeOutcomes;
  return notHeld(probes).length === 0 ? probes : undefined;
}
