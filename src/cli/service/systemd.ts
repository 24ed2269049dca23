/** The service manager of this machine, as far as the verbs of `ringfence service` use it. */
import { spawn, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { EXIT, OperatorError } from '../output.ts';
import type { Scope } from './units.ts';

/** Exists exactly while systemd is the machine's first process (sd_booted). */
const BOOTED = '/run/systemd/system';

/** Properties of a unit by name. */
type Properties = Readonly<Record<string, string>>;

export interface Systemd {
  readonly isRunning: boolean;
  /** Runs `systemctl` with this scope. Throws OperatorError with its message if it fails. */
  control(args: readonly string[]): string;
  /** Shows the newest lines of a unit's journal, and further ones with `follow`; gives the exit code. */
  journal(unit: string, follow: boolean): Promise<number>;
}

export function createSystemd(scope: Scope): Systemd {
  const user = scope === 'user' ? ['--user'] : [];
  return {
    isRunning: existsSync(BOOTED),
    control(args) {
      const { error, status, stdout, stderr } = spawnSync('systemctl', [...user, ...args], { encoding: 'utf8' });
      if (error || status !== 0)
        throw new OperatorError(`systemctl ${args.join(' ')} failed: ${error?.message ?? stderr.trim()}`);
      return stdout;
    },
    journal: (unit, follow) =>
      show('journalctl', [scope === 'user' ? '--user-unit' : '--unit', unit, '-n', '200', ...(follow ? ['-f'] : [])]),
  };
}

/** Runs a program on this terminal; gives its exit code. */
export function show(program: string, args: readonly string[]): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: 'inherit' });
    child.once('error', reject);
    child.once('exit', (code) => resolve(code ?? EXIT.INTERRUPTED));
  });
}

export function unitState(systemd: Systemd, unit: string): Properties {
  const text = systemd.control(['show', '-p', 'ActiveState,SubState,MainPID,NRestarts,Result,StatusText', unit]);
  return Object.fromEntries(
    text
      .split('\n')
      .map((it) => it.split(/=(.*)/s) as [string, string])
      .filter(([name]) => name !== ''),
  );
}
