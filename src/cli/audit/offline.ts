/** Reads the audit log without a daemon: of a state directory whose daemon is not running, or that was copied from elsewhere. */
import { join } from 'node:path';
import { RpcError, ToolError } from '../../base/errors.ts';
import { defaultLimits } from '../../base/limits.ts';
import { systemPowers } from '../../base/powers.ts';
import type { AuditPageRequest } from '../../store/audit/query.ts';
import { AuditReader } from '../../store/audit/reader.ts';
import { assertKnownState } from '../../store/state-schema.ts';
import { type CliCaller, connect, userDirsOf } from '../connect.ts';
import { CliError, EXIT, harmless, say, UsageError } from '../output.ts';
import type { AuditClient } from './audit.ts';

/** Runs an action on the audit log, through the daemon or by reading the file if none runs. Throws CliError if there is neither. */
export async function withAudit(caller: CliCaller, action: (client: AuditClient) => Promise<number>): Promise<number> {
  try {
    await using client = await connect({ ...caller, role: 'operator' });
    return await action(client);
  } catch (error) {
    if (!(error instanceof CliError) || error.exitCode !== EXIT.UNREACHABLE) throw error;
    const { stateDir } = userDirsOf(caller.flags, caller.env);
    assertKnownState(stateDir);
    return await readOffline(join(stateDir, 'audit.db'), action, error);
  }
}

async function readOffline(
  path: string,
  action: (client: AuditClient) => Promise<number>,
  unreachable: CliError,
): Promise<number> {
  try {
    using reader = new AuditReader(path, defaultLimits, systemPowers());
    say(harmless(`no daemon runs; reading ${path}`));
    return await action(offlineClient(reader));
  } catch (error) {
    if (error instanceof RpcError) throw new UsageError(error.message);
    if (error instanceof ToolError)
      throw new CliError(unreachable.exitCode, `${unreachable.message}; ${error.message}`);
    throw error;
  }
}

/** Answers `audit.query` and `audit.verify` from a file, as the daemon does. */
export const offlineClient = (reader: AuditReader): AuditClient => ({
  request: (method, params) =>
    (method === 'audit.verify' ? reader.verify() : reader.query(params as AuditPageRequest)) as Promise<never>,
});
