/** What the gateway asks about commands in the background: it knows whose they are, and asks for all of their owners. */
import { ToolError } from '../../src/base/errors.ts';
import type { BackgroundJob } from '../../src/hosts/background/background-job.ts';
import { unlessAborted } from '../../src/hosts/shutdown.ts';
import { entryOf, type KeptCommand } from './background-commands.ts';
import { type ForwardOptions, forwardPort } from './forwarded-port.ts';
import type { KeptPrograms, KeptRecord } from './kept-programs.ts';

export type BackgroundJobOptions = Omit<ForwardOptions, 'folder'> & { readonly folder: string | undefined };

/** Throws NOT_FOUND for a handle that is not known; UNSUPPORTED and the signal's reason. */
export async function runBackgroundJob(
  job: BackgroundJob,
  kept: KeptPrograms,
  options: BackgroundJobOptions,
): Promise<object> {
  const recordOf = (handle: string) => kept.anyones<'background command', KeptCommand>(handle, 'background command');
  if ('list' in job)
    return { commands: job.list.flatMap((it) => recordOf(it) ?? []).map((it) => entryOf(it, options.powers)) };
  const record = recordOf(job.handle);
  if (!record) throw new ToolError('NOT_FOUND', `this host has no command ${job.handle}`);
  const { run } = record.program;
  if ('stop' in job) await run.stop();
  else if ('waitFor' in job) await unlessAborted(endOf(record, job.waitFor), options.signal);
  else return await forwardPort(job.forward, run, withFolder(options));
  return {};
}

const endOf = ({ program, forgotten }: KeptRecord<KeptCommand>, what: 'end' | 'forgotten'): Promise<void> =>
  what === 'end' ? program.run.gone : forgotten;

function withFolder({ folder, ...options }: BackgroundJobOptions): ForwardOptions {
  if (folder !== undefined) return { ...options, folder };
  throw new ToolError('UNSUPPORTED', 'this host shares no folder with the daemon, so no port can be opened');
}
