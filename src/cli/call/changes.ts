/**
 * `ringfence changes`: lists what commands left at names that programs of the person run, and puts it back or removes it;
 * and which ordinary files were changed that those programs run once they are called, or that agents obey.
 */
import type { Answer } from '../../wire/protocol/answers.ts';
import { type CliCaller, connectOperator } from '../connect.ts';
import { EXIT, harmless, type JsonFlag, print, printJson, say } from '../output.ts';

type Quarantine = Answer<'session.quarantine'>;

/** Lists them, or decides about paths. Returns the exit code. */
export async function changes(
  decision: { readonly keep?: readonly string[]; readonly drop?: readonly string[] },
  { json }: JsonFlag,
  caller: CliCaller,
): Promise<number> {
  await using client = await connectOperator(caller);
  const { items, changed, done, errors } = await client.request('session.quarantine', decision);
  if (json) printJson({ items, changed, done, errors });
  else {
    for (const path of done) print(harmless(`${decision.keep ? 'put back' : 'removed'} ${path}`));
    for (const { code, message } of errors) say(harmless(`${code}: ${message}`));
    if (done.length + errors.length === 0) {
      list(items);
      listChanged(
        'your tools run these',
        changed.filter(({ how }) => how === 'run'),
      );
      listChanged(
        'agents obey these',
        changed.filter(({ how }) => how === 'obeyed'),
      );
    }
  }
  return errors.length === 0 ? EXIT.OK : EXIT.FAILED;
}

function list(items: Quarantine['items']): void {
  if (items.length === 0) return say('no command left anything at names that your programs run');
  for (const { path, callId, runBy } of items) print(harmless(`${path}  (${runBy}; call ${callId})`));
  say(
    'moved out of the workspace; `ringfence changes keep PATH` puts it back, `ringfence changes drop PATH` removes it',
  );
}

function listChanged(title: string, files: Quarantine['changed']): void {
  if (files.length === 0) return;
  say(`${title}, and calls changed them; \`git diff\` shows how, \`ringfence undo CALL\` takes it back:`);
  for (const { path, callId, by } of files) print(harmless(`${path}  (${by}; call ${callId})`));
}
