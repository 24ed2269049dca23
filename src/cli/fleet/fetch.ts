/** `ringfence fleet fetch`: gets what a session has changed in a workspace that a node of a fleet keeps. */
import { createHash } from 'node:crypto';
import { closeSync, openSync, renameSync, rmSync, writeSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Client } from '../../client/client.ts';
import type { Answer } from '../../wire/protocol/answers.ts';
import { type CliCaller, connect } from '../connect.ts';
import { EXIT, harmless, OperatorError, print, printJson, say, UsageError } from '../output.ts';

export interface FetchFlags {
  readonly json?: boolean;
  readonly as: string;
  readonly branch?: string;
  readonly output?: string;
}

type Told = Answer<'workspaces.collect'>;

/** Returns the exit code. */
export async function fleetFetch(workspace: string, flags: FetchFlags, caller: CliCaller): Promise<number> {
  const { as, branch, json } = flags;
  if (!['bundle', 'patch', 'push'].includes(as))
    throw new UsageError(harmless(`--as must be bundle, patch or push, not ${as}`));
  await using client = await connect({ ...caller, flags: { ...caller.flags, workspace, autostart: false } });
  const asked = { as, branch };
  const told = await client.request('workspaces.collect', asked);
  const file = told.bytes === undefined ? undefined : resolve(caller.cwd, flags.output ?? fileName(workspace, as));
  if (file !== undefined) await save(client, file, told);
  if (json) printJson({ ...told, file });
  else tell(told, file, as);
  return EXIT.OK;
}

const fileName = (workspace: string, as: string): string =>
  `${/kept\/([0-9a-f]{8})/.exec(workspace)?.[1] ?? 'changes'}.${as}`;

function tell({ changed, branch, files, problems, pushedTo }: Told, file: string | undefined, as: string): void {
  if (file !== undefined) print(harmless(file));
  for (const it of problems) say(harmless(it));
  if (!changed) say('the session has changed nothing');
  else if (pushedTo !== undefined) say(harmless(`pushed ${branch} to ${pushedTo}; ${files} files differ`));
  else if (as === 'patch') say(harmless(`${files} files differ; to take them over: git apply ${file}`));
  else say(harmless(`${files} files differ; to take them over: git fetch ${file} ${branch} && git merge FETCH_HEAD`));
}

/** Writes the file piece by piece, and gives it its name when it is whole. Throws OperatorError. */
async function save(client: Pick<Client, 'request'>, path: string, { bytes = 0, sha256 }: Told): Promise<void> {
  const part = `${path}.part`;
  const file = openSync(part, 'w', 0o600);
  const hash = createHash('sha256');
  try {
    for (let offset = 0; offset < bytes; ) {
      const { data } = await client.request('workspaces.read', { offset });
      if (data.length === 0) throw new OperatorError(`only ${offset} of ${bytes} bytes came`);
      writeSync(file, data);
      hash.update(data);
      offset += data.length;
    }
    if (hash.digest('hex') !== sha256) throw new OperatorError('the bytes that came are not those that were told');
    renameSync(part, path);
  } finally {
    closeSync(file);
    rmSync(part, { force: true });
  }
}
