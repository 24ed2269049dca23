/** Written by `npm run gen` from the files of src/tools/<group>/; test/tidy.test.ts compares it with them. */
import codeRun from './code/run.ts';
import dataValidate from './data/validate.ts';
import fileCopy from './file/copy.ts';
import fileDelete from './file/delete.ts';
import fileEdit from './file/edit.ts';
import fileGlob from './file/glob.ts';
import fileGrep from './file/grep.ts';
import fileList from './file/list.ts';
import fileMakeDirectory from './file/make-directory.ts';
import fileMultiEdit from './file/multi-edit.ts';
import fileRead from './file/read.ts';
import fileReadMany from './file/read-many.ts';
import fileRename from './file/rename.ts';
import fileSearch from './file/search.ts';
import fileWrite from './file/write.ts';
import gitBranch from './git/branch.ts';
import gitCommit from './git/commit.ts';
import gitDiff from './git/diff.ts';
import gitLog from './git/log.ts';
import gitShow from './git/show.ts';
import gitStatus from './git/status.ts';
import httpRequest from './http/request.ts';
import terminalExecute from './terminal/execute.ts';
import terminalInteractive from './terminal/interactive.ts';
import terminalScript from './terminal/script.ts';
import todoRead from './todo/read.ts';
import todoWrite from './todo/write.ts';
import workspaceFindReferences from './workspace/find-references.ts';
import workspaceSearchSymbol from './workspace/search-symbol.ts';
import workspaceStructure from './workspace/structure.ts';

export const builtinTools = {
  code_run: codeRun,
  data_validate: dataValidate,
  file_copy: fileCopy,
  file_delete: fileDelete,
  file_edit: fileEdit,
  file_glob: fileGlob,
  file_grep: fileGrep,
  file_list: fileList,
  file_make_directory: fileMakeDirectory,
  file_multi_edit: fileMultiEdit,
  file_read: fileRead,
  file_read_many: fileReadMany,
  file_rename: fileRename,
  file_search: fileSearch,
  file_write: fileWrite,
  git_branch: gitBranch,
  git_commit: gitCommit,
  git_diff: gitDiff,
  git_log: gitLog,
  git_show: gitShow,
  git_status: gitStatus,
  http_request: httpRequest,
  terminal_execute: terminalExecute,
  terminal_interactive: terminalInteractive,
  terminal_script: terminalScript,
  todo_read: todoRead,
  todo_write: todoWrite,
  workspace_find_references: workspaceFindReferences,
  workspace_search_symbol: workspaceSearchSymbol,
  workspace_structure: workspaceStructure,
} as const;
