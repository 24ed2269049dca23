/** Prints the failed test files of a report, one a line; prints nothing if there are too many for a second try. */
import { failuresIn, readReport } from './report.ts';

/** A few failures may come from a busy machine; more come from the change. */
const FILES_MAX = 12;

const files = (readReport(process.argv[2] ?? '') ?? []).filter((it) => failuresIn(it) > 0);
if (files.length <= FILES_MAX) for (const { name } of files) console.log(name);
