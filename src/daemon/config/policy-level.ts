/** `policy.set`: how calls of a tool are decided, in the operator's policy file; the change is shown before it is written. */

import { OperatorError, RpcError } from '../../base/errors.ts';
import { defaultLimits } from '../../base/limits.ts';
import { unifiedDiff } from '../../tools/edit/diff.ts';
import type { Params } from '../../wire/protocol/messages.ts';
import type { Config } from '../config.ts';
import { changeInForce, toLevel } from './own-policy.ts';
import { writeWhole } from './write-whole.ts';

export interface ChangedLevel {
  readonly path: string;
  /** Empty if the file says so already. */
  readonly diff: string;
  readonly isWritten: boolean;
  /** Whether the daemon reads the file without a restart. */
  readonly isInForce: boolean;
}

/** Writes only what was seen: without `seen`, or if the file has changed since, the change is shown alone. Throws RpcError. */
export async function changeLevel({ tool, level, seen }: Params<'policy.set'>, config: Config): Promise<ChangedLevel> {
  try {
    const { files, isInForce } = changeInForce(toLevel(tool, level), config);
    const changed = files.filter((it) => it.after !== it.before);
    const diffs = await Promise.all(changed.map(diffOf));
    const diff = diffs.join('\n');
    const isWritten = diff !== '' && diff === seen;
    if (isWritten) for (const { path, after } of changed) writeWhole(path, after);
    return { path: (files.at(-1) as (typeof files)[number]).path, diff, isWritten, isInForce };
  } catch (error) {
    if (error instanceof OperatorError) throw new RpcError('INVALID_PARAMS', error.message);
    const { code } = error as NodeJS.ErrnoException;
    if (code === undefined) throw error;
    throw new RpcError('INVALID_PARAMS', `the policy file can't be changed: ${code}`);
  }
}

async function diffOf({ path, before, after }: { path: string; before: string | undefined; after: string }) {
  const [old, fresh] = [before === undefined ? undefined : Buffer.from(before), Buffer.from(after)];
  return (
    (await unifiedDiff(path.slice(1), { before: old, after: fresh }, defaultLimits)) ?? `${path} would be:\n${after}`
  );
}
