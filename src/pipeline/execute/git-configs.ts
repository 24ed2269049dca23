/** Reports the outcome of a command's changes to configs of repositories, for its result and the record. */
import * as z from 'zod';
import { showLine } from '../../base/text/shown-text.ts';
import type { JobUsage } from '../../hosts/job.ts';
import { reported } from './reported.ts';

/** The host's report, checked against this schema only; the command chooses the names in it. */
const shape = z
  .array(
    z.object({
      path: z.string().max(4096),
      taken: z.array(z.string().max(2048)).max(256),
      refused: z.array(z.object({ key: z.string().max(256), why: z.string().max(4096) })).max(256),
    }),
  )
  .max(256);

export type GitConfigs = z.infer<typeof shape>;

export const gitConfigsOf = ({ command }: Pick<JobUsage, 'command'>): GitConfigs =>
  reported(shape, command?.gitConfigs) ?? [];

/** The most keys that one result names for each repository. */
const TOLD_MAX = 16;

/** Warnings about settings that were not copied to the repositories, and what commands can do without them. */
export function gitConfigWarnings(usage: Pick<JobUsage, 'command'>): string[] {
  return gitConfigsOf(usage).flatMap(({ path, refused }) => {
    if (refused.length === 0) return [];
    const shownRefusals = refused.slice(0, TOLD_MAX).map(({ key, why }) => `${showLine(key)} (${showLine(why)})`);
    const more = refused.length > TOLD_MAX ? [`${refused.length - TOLD_MAX} more`] : [];
    return [
      `${showLine(path)} was not given: ${[...shownRefusals, ...more].join(', ')}. It had this for the command only; ` +
        "a config can name programs that the person's git would run, so to keep it, the person runs the command outside",
    ];
  });
}
