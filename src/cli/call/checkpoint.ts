import { type CliCaller, connectOperator } from '../connect.ts';
import { shortId } from '../ids.ts';
import { EXIT, harmless, print, printJson, printRows, say } from '../output.ts';
import { printUndone } from './undo.ts';

export interface CheckpointFlags {
  readonly json?: boolean;
  readonly force?: boolean;
  readonly session?: string;
}

/** `checkpoint list`. Returns the exit code, like the others. */
export async function checkpointList({ json }: CheckpointFlags, caller: CliCaller): Promise<number> {
  await using client = await connectOperator(caller);
  const { checkpoints } = await client.request('checkpoints.list', {});
  return printRows(checkpoints, json, 'no checkpoint here; name one: ringfence checkpoint name NAME', (it) =>
    harmless(`${it.name}  ${it.at}  ${callsIn(it.calls)} since`),
  );
}

export async function checkpointName(name: string, { json }: CheckpointFlags, caller: CliCaller): Promise<number> {
  await using client = await connectOperator(caller);
  const named = await client.request('checkpoints.name', { name });
  if (json) printJson(named);
  else print(harmless(`${named.replaced ? 'moved' : 'named'} ${name}; to return: ringfence checkpoint return ${name}`));
  return EXIT.OK;
}

export async function checkpointDiff(
  name: string,
  { json, session }: CheckpointFlags,
  caller: CliCaller,
): Promise<number> {
  await using client = await connectOperator(caller);
  const difference = await client.request('checkpoints.diff', { name, ...only(session) });
  if (json) printJson(difference);
  else {
    print(harmless(`${callsIn(difference.calls.length)} since ${difference.at}, the newest first:`));
    for (const { callId, at, undo } of difference.calls)
      print(harmless(`  ${shortId(callId)}  ${at}${undo === 'full' ? '' : `  (undo: ${undo})`}`));
    for (const path of difference.paths) print(harmless(path));
    const more = difference.pathsTotal - difference.paths.length;
    if (more > 0) print(`and ${more} more`);
  }
  return EXIT.OK;
}

export async function checkpointReturn(
  name: string,
  { json, force = false, session }: CheckpointFlags,
  caller: CliCaller,
): Promise<number> {
  await using client = await connectOperator(caller);
  const answer = await client.request('checkpoints.return', { name, force, ...only(session) });
  const isWhole = answer.error === undefined && (force || answer.conflicts.length === 0);
  if (json) printJson(answer);
  else {
    printUndone(answer, force);
    for (const it of answer.incomplete) say(harmless(`only a part of call ${shortId(it)} was kept`));
    if (isWhole && answer.calls.length > 0) print(`${callsIn(answer.calls.length)} undone`);
  }
  return isWhole ? EXIT.OK : EXIT.FAILED;
}

const callsIn = (count: number): string => (count === 1 ? '1 call' : `${count} calls`);

const only = (session: string | undefined) => (session === undefined ? {} : { session });
