/**
 * The probe: a script that tries, from inside, what the sandbox must not let through, and says what it could do.
 * The level that the daemon shows was proven by it at start.
 */
import type { ChildProcess } from 'node:child_process';
import type { Limits } from '../limits.ts';
import type { Powers } from '../powers.ts';

interface ProbeAims {
  /** A folder that exists outside and must not inside. */
  readonly stateDir: string;
  readonly daemonPid: number;
}

export interface ProbeResult {
  readonly ok: boolean;
  /** Names of the attempts that got through. */
  readonly leaks: readonly string[];
  /** One sentence for people; empty when ok. */
  readonly reason: string;
}

/** One attempt a line: a name, and a bash condition that is true when the sandbox leaks. */
const ATTEMPTS: Record<string, string> = {
  'read-outside': '[ -e "$STATE" ]',
  'write-system': '( : >/usr/.ringfence-probe ) || ( : >/.ringfence-probe ) || ( : >/etc/.ringfence-probe )',
  'core-pattern': '[ -w /proc/sys/kernel/core_pattern ]',
  network: '[ "$(grep -c : /proc/net/dev)" != 1 ]',
  'signal-daemon': '[ "$$" != "$DAEMON" ] && kill -0 "$DAEMON"',
  capabilities: "! grep -qx $'CapEff:\\t0000000000000000' /proc/self/status",
  'new-privileges': "! grep -qx $'NoNewPrivs:\\t1' /proc/self/status",
  seccomp: "! grep -qx $'Seccomp:\\t2' /proc/self/status",
  namespaces: 'unshare --user true',
  environment: '[ "$(tr "\\0" "\\n" </proc/1/environ | grep -c .)" -gt 8 ]',
};

/** What the script says last, so that an empty answer is not a good one. */
const DONE = 'done';

/** The script for bash; it needs grep, tr and unshare of the system. */
export function probeCommand({ stateDir, daemonPid }: ProbeAims): string {
  const lines = Object.entries(ATTEMPTS).map(
    ([name, leak]) => `if { ${leak}; } 2>/dev/null; then echo "leak ${name}"; fi`,
  );
  return [`STATE=${quote(stateDir)} DAEMON=${daemonPid}`, ...lines, `echo ${DONE}`].join('\n');
}

const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** Waits for a started probe, at most `probeMs`. */
export async function readProbe(child: ChildProcess, limits: Limits, powers: Powers): Promise<ProbeResult> {
  let [out, err] = ['', ''];
  child.stdout?.on('data', (chunk) => (out += chunk));
  child.stderr?.on('data', (chunk) => (err += chunk));
  const timer = powers.after(limits.probeMs, () => child.kill('SIGKILL'));
  const failure = await new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('close', (code, signal) => resolve(signal ?? (code === 0 ? '' : `exit status ${code}`)));
  });
  timer.cancel();
  const leaks = [...out.matchAll(/^leak (\S+)$/gm)].map((it) => it[1] as string);
  if (failure !== '' || !out.endsWith(`${DONE}\n`)) {
    return { ok: false, leaks, reason: advice(err.trim().split('\n')[0] || failure || 'the probe said nothing') };
  }
  if (leaks.length === 0) return { ok: true, leaks, reason: '' };
  return { ok: false, leaks, reason: `The sandbox of this machine let through: ${leaks.join(', ')}.` };
}

function advice(complaint: string): string {
  const why = `bubblewrap could not build the sandbox (${complaint}).`;
  if (!/uid map|namespace|permission|not permitted/i.test(complaint)) return why;
  return `${why} Allow unprivileged user namespaces: sysctl kernel.unprivileged_userns_clone=1, or on Ubuntu 24.04 and later an AppArmor profile with "userns," for /usr/bin/bwrap.`;
}
