/** Written by `npm run gen` from the files of src/tools/<group>/; test/tidy.test.ts compares it with them. */
import fileList from './file/list.ts';
import fileRead from './file/read.ts';
import fileWrite from './file/write.ts';
import terminalExecute from './terminal/execute.ts';
import terminalInteractive from './terminal/interactive.ts';
import terminalScript from './terminal/script.ts';

export const builtinTools = {
  file_list: fileList,
  file_read: fileRead,
  file_write: fileWrite,
  terminal_execute: terminalExecute,
  terminal_interactive: terminalInteractive,
  terminal_script: terminalScript,
} as const;
