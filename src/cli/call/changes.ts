/** `ringfence changes`: lists what commands left at names that programs of the person run, and puts it back or removes it. */
import { type CliCaller, connect } from '../connect.ts';
import { EXIT, harmless, print, printJson, say } from '../output.ts';

interface Answer {
  readonly items: readonly { path: string; at: string; callId: string; runBy: string }[];
  readonly done: readonly string[];
  readonly errors: readonly { path: string; code: string; message: string }[];
}

/** Lists them, or decides about paths. Returns the exit code. */
export async function changes(
  decision: { readonly keep?: readonly string[]; readonly drop?: readonly string[] },
  { json }: { json?: boolean },
  caller: CliCaller,
): Promise<number> {
  const flags = { ...caller.flags, workspace: caller.flags.workspace ?? caller.cwd };
  await using client = await connect({ ...caller, flags, role: 'operator' });
  const { items, done, errors } = (await client.request('session.quarantine', decision)) as Answer;
  if (json) printJson({ items, done, errors });
  else {
    for (const path of done) print(harmless(`${decision.keep ? 'put back' : 'removed'} ${path}`));
    for (const { code, message } of errors) say(harmless(`${code}: ${message}`));
    if (done.length + errors.length === 0) list(items);
  }
  return errors.length === 0 ? EXIT.OK : EXIT.FAILED;
}

function list(items: Answer['items']): void {
  if (items.length === 0) return say('no command left anything at names that your programs run');
  for (const { path, callId, runBy } of items) print(harmless(`${path}  (${runBy}; call ${callId})`));
  say(
    'moved out of the workspace; `ringfence changes keep PATH` puts it back, `ringfence changes drop PATH` removes it',
  );
}
