/** Written by `npm run gen` from the files of src/tools/<group>/; test/tidy.test.ts compares it with them. */
import dataValidate from './data/validate.ts';
import fileGlob from './file/glob.ts';
import fileGrep from './file/grep.ts';
import fileList from './file/list.ts';
import fileRead from './file/read.ts';
import fileReadMany from './file/read-many.ts';
import fileSearch from './file/search.ts';
import fileWrite from './file/write.ts';
import terminalExecute from './terminal/execute.ts';
import workspaceStructure from './workspace/structure.ts';

export const builtinTools = {
  data_validate: dataValidate,
  file_glob: fileGlob,
  file_grep: fileGrep,
  file_list: fileList,
  file_read: fileRead,
  file_read_many: fileReadMany,
  file_search: fileSearch,
  file_write: fileWrite,
  terminal_execute: terminalExecute,
  workspace_structure: workspaceStructure,
} as const;
