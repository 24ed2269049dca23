/** What tools of files accept beside their own words. */

export const UTF8 = { utf8: 'utf-8', 'UTF-8': 'utf-8' };

/** Other tools leave copies beside what they change; here the undo journal keeps what was there. */
export const NO_BACKUP = {
  createBackup: 'createBackup: no copy is made beside the file; the undo journal has the old content (calls.undo)',
};
