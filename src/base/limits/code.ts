/** Bounds of the tools that read source code. */
import { KiB, MiB } from './units.ts';

export const codeLimits = {
  /** Source files of one question about code; the rest of a larger tree is ignored, and the answer says so. */
  sourceFilesMax: 20_000,
  /** Bytes of all sources that one question reads; 4 MB take a parser 0.4 s. */
  sourceBytesMax: 64 * MiB,
  /** Bytes of sources in one message to a parser process, so that neither side holds a whole tree. */
  sourceBatchBytes: 512 * KiB,
  /** Files in one message to a parser process; a crash costs a second attempt for each of them. */
  sourceBatchFilesMax: 64,
  /** Time for parsing one message of sources; the files of a slower one are parsed each alone. */
  sourceBatchMs: 8_000,
  /** Symbols, imports, exports and syntax nodes of one file in an answer, each counted for itself. */
  sourceNamesMax: 2_000,
  /** Files, edges, circles and other entries of a graph in an answer, each counted for itself. */
  graphEntriesMax: 2_000,
  /** Bytes of a lockfile that is read; one of 3 000 packages has 1 MB, which takes 10 ms. */
  lockfileBytesMax: 8 * MiB,
  /** Bytes of a planned manifest and lockfile; the daemon holds them while a person is asked. */
  packagePlanBytes: 2 * MiB,
  /** Plans of packages that the daemon holds at once. */
  packagePlansMax: 32,
  /** Requests that one call of a tool may send to servers; a hostile lockfile could name any number of packages. */
  serverRequestsMax: 256,
  /** Requests of such a call at a time, each with a connection of its own. */
  serverLanesMax: 4,
  /** Time for all requests of such a call, so that a registry that hangs costs its answers and not the call. */
  serverAnswersMs: 30_000,
  /** Bytes of all answers that go to the host in one message. */
  serverAnswersBytesMax: 12 * MiB,
  /** Packages that a registry is asked about for newer versions; each takes one request. */
  outdatedPackagesMax: 200,
  /** Packages that a registry is asked about for known vulnerabilities, in messages of auditBatchMax. */
  auditPackagesMax: 10_000,
  /** Packages in one message about vulnerabilities; its answer must fit httpBodyBytesMax. */
  auditBatchMax: 500,
  /** Bytes of what a registry says of one package that are read: its newest version stands at the beginning. */
  packageMetadataBytes: 32 * KiB,
  /** Places to look for one imported module: a tsconfig may map a name to any number of paths. */
  moduleCandidatesMax: 16,
  /** tsconfig files that one extends, one after another; more are ignored, as is a circle of them. */
  projectExtendsMax: 16,
  /** Syntax errors of one file in an answer. */
  sourceErrorsMax: 50,
  /** Data memory of a compiler that checks a whole project; 700 files take 0.7 to 1.1 GB. */
  typeCheckMemoryBytes: 2048 * MiB,
  /** Files that one refactoring changes. */
  refactorFilesMax: 500,
  /** Files whose errors are compared before and after a refactoring; each takes 2 to 100 ms. */
  refactorCheckedMax: 500,
  /** Files that one call checks one by one; each takes 2 to 50 ms. */
  typeCheckFilesMax: 500,
  /** Files that one call lints or formats. */
  checkedFilesMax: 2_000,
  /** Bytes of the files that one call lints or formats: a copy of them takes memory in the host's scratch space. */
  checkedBytesMax: 24 * MiB,
  /** Data memory of a linter or formatter; its allocator reserves far more than it fills. */
  checkerMemoryBytes: 2 * 1024 * MiB,
  /** Bytes that a linter or formatter may write, so that a file with a fault in each line can't fill the thread. */
  checkerOutputBytes: 32 * MiB,
  /** Bytes of all edits that a plan carries from the read_only host to the write host, in one message. */
  plannedBytesMax: 12 * MiB,
  /** Issues in an answer. */
  lintIssuesMax: 500,
};
