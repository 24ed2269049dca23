/** `ringfence token`: manages the tokens of WebSocket and HTTP clients and of operators. */
import { existsSync } from 'node:fs';
import { systemPowers } from '../base/powers.ts';
import { lockFile } from '../daemon/user-dirs.ts';
import { acquireLock } from '../store/database.ts';
import { assertKnownState } from '../store/state-schema.ts';
import { knownTokens, replaceToken, tokenPath } from '../store/tokens.ts';
import type { Answer } from '../wire/protocol/answers.ts';
import { type CliCaller, ifRunning, userDirsOf } from './connect.ts';
import { CliError, EXIT, harmless, type JsonFlag, OperatorError, print, printJson, say } from './output.ts';

/**
 * Creates new tokens, for all names if none is given: through the running daemon, otherwise in its state directory. Returns the exit code.
 */
export async function tokenRotate(names: readonly string[], { json }: JsonFlag, caller: CliCaller): Promise<number> {
  const { stateDir } = userDirsOf(caller.flags, caller.env);
  const { rotated, sessionsEnded } =
    (await ifRunning(caller, (client) => client.request('tokens.rotate', { names }))) ?? offline(names, stateDir);
  const files = rotated.map((name) => ({ name, path: tokenPath(stateDir, name) }));
  if (json) printJson({ rotated: files, sessionsEnded });
  else for (const { name, path } of files) print(harmless(`${name}  ${path}`));
  say(`ended ${sessionsEnded} sessions that were opened with the old tokens`);
  return EXIT.OK;
}

/** Rotates tokens in the state directory, under the lock, so that no daemon starts with the old ones. Throws OperatorError. */
function offline(names: readonly string[], stateDir: string): Answer<'tokens.rotate'> {
  if (!existsSync(stateDir))
    throw new CliError(
      EXIT.UNREACHABLE,
      `no daemon has run with state directory ${stateDir} yet, so it has no tokens; start one with: ringfence serve --detach`,
    );
  assertKnownState(stateDir);
  using lock = acquireLock(lockFile(stateDir));
  if (!lock)
    throw new CliError(
      EXIT.UNREACHABLE,
      `a daemon uses ${stateDir} but does not answer at its socket; stop it with: ringfence stop`,
    );
  const known = knownTokens(stateDir);
  const unknown = names.find((it) => !known.includes(it));
  if (unknown !== undefined)
    throw new OperatorError(`${harmless(unknown)} has no token; tokens exist for: ${known.join(', ') || 'none'}`);
  const rotated = names.length === 0 ? known : [...names];
  const powers = systemPowers();
  for (const it of rotated) replaceToken(stateDir, it, powers.secret());
  return { rotated, sessionsEnded: 0 };
}
