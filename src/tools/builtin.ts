/** Written by `npm run gen` from the files of src/tools/<group>/; test/tidy.test.ts compares it with them. */
import fileList from './file/list.ts';
import fileRead from './file/read.ts';
import fileWrite from './file/write.ts';
import gitBranch from './git/branch.ts';
import gitCommit from './git/commit.ts';
import gitDiff from './git/diff.ts';
import gitLog from './git/log.ts';
import gitShow from './git/show.ts';
import gitStatus from './git/status.ts';
import terminalExecute from './terminal/execute.ts';
import todoRead from './todo/read.ts';
import todoWrite from './todo/write.ts';

export const builtinTools = {
  file_list: fileList,
  file_read: fileRead,
  file_write: fileWrite,
  git_branch: gitBranch,
  git_commit: gitCommit,
  git_diff: gitDiff,
  git_log: gitLog,
  git_show: gitShow,
  git_status: gitStatus,
  terminal_execute: terminalExecute,
  todo_read: todoRead,
  todo_write: todoWrite,
} as const;
