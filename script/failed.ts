/** Prints the test files of a report that failed, one a line; nothing where there are more than a second try is meant for. */
import { failuresIn, readReport } from './report.ts';

/** A few failures may be a busy machine's; more of them are the change's. */
const FILES_MAX = 6;

const files = (readReport(process.argv[2] ?? '') ?? []).filter((it) => failuresIn(it) > 0);
if (files.length <= FILES_MAX) for (const { name } of files) console.log(name);
