/** `ringfence upgrade`: the running daemon hands over to a new one, without losing calls. */

import { version } from '../base/runtime.ts';
import { type Client, RemoteError } from '../client/client.ts';
import { type CliCaller, connect } from './connect.ts';
import { EXIT, harmless, OperatorError, printJson, say, UsageError } from './output.ts';
import type { Status } from './status.ts';

export interface UpgradeFlags {
  /** For example `10m`. */
  readonly drain?: string;
  readonly json?: boolean;
}

/** Returns when the new daemon serves. Returns the exit code. */
export async function upgrade({ drain, json }: UpgradeFlags, caller: CliCaller): Promise<number> {
  const params = drain === undefined ? {} : { drainMs: toMs(drain) };
  const asOperator = () => connect({ ...caller, role: 'operator', flags: { ...caller.flags, autostart: false } });
  const before = await handOver(await asOperator(), params);
  // The socket is the same, so this waits until the new daemon answers.
  await using client = await asOperator();
  const { pid, version: running } = (await client.request('status', {})) as Status;
  if (pid !== before.successor.pid)
    throw new OperatorError(
      `the new daemon failed after the old one had closed the state; version ${running} serves (pid ${pid}): read the log for the reason`,
    );
  if (json) printJson({ before: before.version, version: running, pid });
  else say(`the daemon is version ${running} now (pid ${pid}), before ${before.version}`);
  if (running !== version)
    say(`this program is version ${version}; the daemon was started from another place and stays with that`);
  return EXIT.OK;
}

/** Asks for the new daemon; resolves when the old one has let this client go. Throws OperatorError if there will be no new one. */
async function handOver(client: Client, params: object) {
  await using _ = client;
  const { version: before } = (await client.request('status', {})) as Status;
  const ended = client.ended;
  try {
    const successor = await client.request('upgrade', params);
    say(`version ${harmless(successor.version)} is ready to take over, and waits for the calls that run`);
    await ended;
    return { version: before, successor };
  } catch (error) {
    if (error instanceof RemoteError) throw new OperatorError(harmless(error.message));
    throw error;
  }
}

const UNITS: Readonly<Record<string, number>> = { s: 1000, m: 60_000, h: 3_600_000 };

/** The milliseconds of `30s`, `10m` or `1h`. Throws UsageError. */
function toMs(text: string): number {
  const [, number, unit = ''] = /^(\d{1,5})([smh])$/.exec(text) ?? [];
  const ms = Number(number) * (UNITS[unit] ?? Number.NaN);
  if (ms <= 86_400_000) return ms;
  throw new UsageError(`--drain is ${text}; it takes a number with s, m or h, up to 24h`);
}
