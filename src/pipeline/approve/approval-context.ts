/** The directories and files, beside a call's own input, that decide what the call really does. */
import { realpath } from 'node:fs/promises';
import { dirname, join, normalize } from 'node:path';
import type { Limits } from '../../base/limits.ts';
import { fromRoot } from '../../base/paths.ts';
import type { JudgedCall } from '../stage.ts';
import { conventionalFiles } from './conventional-files.ts';
import { type FileState, fileStates } from './file-states.ts';

export interface ApprovalContext {
  readonly states: readonly FileState[];
  /** False if some named paths were not looked at: their content may be swapped after an approval. */
  readonly complete: boolean;
  /** The real path of the working directory, if that differs from the path as written. */
  readonly runsIn?: string;
  /** For a call that runs code that the person was not shown: changes whenever its principal may have written; see principal-writes.ts. */
  readonly writes?: string | undefined;
  /** Usual time of calls of the tool in milliseconds, for the person only; no yes is bound to it. */
  readonly usualMs?: number | undefined;
}

/** Reads the surroundings of a call as they are now. */
export async function approvalContextOf(call: JudgedCall, { approvalFilesMax }: Limits): Promise<ApprovalContext> {
  const { tool, input, effects } = call.checked;
  const line = tool.commandOf?.(input as never);
  const { workspace, root, question } = call;
  if (!line) {
    // The preview covers the content of the files, but not a link on the way to them.
    const folders = effects.filter((it) => it.kind === 'write' || it.kind === 'delete').map((it) => dirname(it.target));
    return fileStates(root, { paths: folders }, approvalFilesMax);
  }
  const { commands = [], mentions = [], mentionGlobs = [], redirects = [] } = question.command ?? {};
  const targets = redirects.filter((it) => it.kind !== 'connect').map((it) => it.target);
  // Relative to the root, like targets and mentions.
  const cwd = fromRoot(root, workspace, normalize(line.cwd));
  const paths = ['.', cwd, ...mentions, ...targets];
  const writtenCwd = join(workspace, line.cwd).replace(/\/$/, '');
  const [files, realCwd] = await Promise.all([
    fileStates(root, { paths, globs: mentionGlobs, conventional: conventionalFiles(commands) }, approvalFilesMax),
    realpath(writtenCwd).catch(() => writtenCwd), // No such directory: the call will report it.
  ]);
  return { ...files, ...(realCwd !== writtenCwd && { runsIn: realCwd }) };
}
