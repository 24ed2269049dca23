/** What a call stands on beside its own words: the directories and files that decide what it really does. */
import { realpath } from 'node:fs/promises';
import { dirname, join, normalize } from 'node:path';
import type { Limits } from '../limits.ts';
import { fromRoot } from '../paths.ts';
import { conventionalFiles } from './conventional-files.ts';
import { type FileState, fileStates } from './file-states.ts';
import { type Call, checkedOf } from './stage.ts';

export interface Surroundings {
  readonly states: readonly FileState[];
  /** False where more is named than was looked at: what lies there may be swapped under a yes. */
  readonly complete: boolean;
  /** The real path of the directory that it runs in, where that is another one than is written. */
  readonly runsIn?: string;
  /** What other calls of the same agent may have written, of a call that runs code that is not shown; see writes.ts. */
  readonly writes?: string | undefined;
}

/** As it is at this moment. */
export async function surroundingsOf(call: Call, { approvalFilesMax }: Limits): Promise<Surroundings> {
  const { tool, input, effects } = checkedOf(call);
  const line = tool.commandOf?.(input as never);
  const { workspace, root, question } = call;
  if (!line) {
    // The content of these is the preview's; a link on the way to them is not.
    const folders = effects.filter((it) => it.kind === 'write' || it.kind === 'delete').map((it) => dirname(it.target));
    return fileStates(root, { paths: folders }, approvalFilesMax);
  }
  const { commands = [], mentions = [], mentionGlobs = [], redirects = [] } = question?.command ?? {};
  const targets = redirects.filter((it) => it.kind !== 'connect').map((it) => it.target);
  // As targets and mentions are: from the daemon's workspace.
  const cwd = fromRoot(root, workspace, normalize(line.cwd));
  const paths = ['.', cwd, ...mentions, ...targets];
  const written = join(workspace, line.cwd).replace(/\/$/, '');
  const [found, real] = await Promise.all([
    fileStates(root, { paths, globs: mentionGlobs, conventional: conventionalFiles(commands) }, approvalFilesMax),
    realpath(written).catch(() => written), // No such directory: the call will say so.
  ]);
  return { ...found, ...(real !== written && { runsIn: real }) };
}
