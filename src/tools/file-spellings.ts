/** Values and parameters from other tools that file tools accept, too. */

export const UTF8 = { utf8: 'utf-8', 'UTF-8': 'utf-8' };

/** Other tools write backup copies; here the undo journal keeps the old content. */
export const NO_BACKUP = {
  createBackup: 'createBackup: no copy is made beside the file; the undo journal has the old content (calls.undo)',
};
