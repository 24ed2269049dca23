/** Written by `npm run gen` from the files of src/tools/<group>/; test/tidy.test.ts compares it with them. */
import fileCopy from './file/copy.ts';
import fileDelete from './file/delete.ts';
import fileEdit from './file/edit.ts';
import fileList from './file/list.ts';
import fileMultiEdit from './file/multi-edit.ts';
import fileRead from './file/read.ts';
import fileRename from './file/rename.ts';
import fileWrite from './file/write.ts';
import terminalExecute from './terminal/execute.ts';

export const builtinTools = {
  file_copy: fileCopy,
  file_delete: fileDelete,
  file_edit: fileEdit,
  file_list: fileList,
  file_multi_edit: fileMultiEdit,
  file_read: fileRead,
  file_rename: fileRename,
  file_write: fileWrite,
  terminal_execute: terminalExecute,
} as const;
