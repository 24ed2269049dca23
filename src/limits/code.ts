/** Bounds of the tools that read source code. */
import { bytes, count, KiB, MiB, ms } from './units.ts';

export const codeLimits = {
  /** Source files of one question about code; the rest of a larger tree is ignored, and the answer says so. */
  sourceFilesMax: count().default(20_000),
  /** Bytes of all sources that one question reads; 4 MB take a parser 0.4 s. */
  sourceBytesMax: bytes().default(64 * MiB),
  /** Bytes of sources in one message to a parser process, so that neither side holds a whole tree. */
  sourceBatchBytes: bytes().default(512 * KiB),
  /** Files in one message to a parser process; a crash costs a second attempt for each of them. */
  sourceBatchFilesMax: count().default(64),
  /** Time for parsing one message of sources; the files of a slower one are parsed each alone. */
  sourceBatchMs: ms().default(8_000),
  /** Symbols, imports, exports and syntax nodes of one file in an answer, each counted for itself. */
  sourceNamesMax: count().default(2_000),
  /** Files, edges, circles and other entries of a graph in an answer, each counted for itself. */
  graphEntriesMax: count().default(2_000),
  /** Bytes of a lockfile that is read; one of 3 000 packages has 1 MB, which takes 10 ms. */
  lockfileBytesMax: bytes().default(8 * MiB),
  /** Bytes of a planned manifest and lockfile; the daemon holds them while a person is asked. */
  packagePlanBytes: bytes().default(2 * MiB),
  /** Plans of packages that the daemon holds at once. */
  packagePlansMax: count().default(32),
  /** Requests that one call of a tool may send to servers; a hostile lockfile could name any number of packages. */
  serverRequestsMax: count().default(256),
  /** Requests of such a call at a time, each with a connection of its own. */
  serverLanesMax: count().default(4),
  /** Time for all requests of such a call, so that a registry that hangs costs its answers and not the call. */
  serverAnswersMs: ms().default(30_000),
  /** Bytes of all answers that go to the host in one message. */
  serverAnswersBytesMax: bytes().default(12 * MiB),
  /** Packages that a registry is asked about for newer versions; each takes one request. */
  outdatedPackagesMax: count().default(200),
  /** Packages that a registry is asked about for known vulnerabilities, in messages of auditBatchMax. */
  auditPackagesMax: count().default(10_000),
  /** Packages in one message about vulnerabilities; its answer must fit httpBodyBytesMax. */
  auditBatchMax: count().default(500),
  /** Bytes of what a registry says of one package that are read: its newest version stands at the beginning. */
  packageMetadataBytes: bytes().default(32 * KiB),
  /** Places to look for one imported module: a tsconfig may map a name to any number of paths. */
  moduleCandidatesMax: count().default(16),
  /** tsconfig files that one extends, one after another; more are ignored, as is a circle of them. */
  projectExtendsMax: count().default(16),
  /** Syntax errors of one file in an answer. */
  sourceErrorsMax: count().default(50),
  /** Data memory of a compiler that checks a whole project; 700 files take 0.7 to 1.1 GB. */
  typeCheckMemoryBytes: bytes().default(2048 * MiB),
  /** Files that one refactoring changes. */
  refactorFilesMax: count().default(500),
  /** Files whose errors are compared before and after a refactoring; each takes 2 to 100 ms. */
  refactorCheckedMax: count().default(500),
  /** Files that one call checks one by one; each takes 2 to 50 ms. */
  typeCheckFilesMax: count().default(500),
  /** Files that one call lints or formats. */
  checkedFilesMax: count().default(2_000),
  /** Bytes of the files that one call lints or formats: a copy of them takes memory in the host's scratch space. */
  checkedBytesMax: bytes().default(24 * MiB),
  /** Data memory of a linter or formatter; its allocator reserves far more than it fills. */
  checkerMemoryBytes: bytes().default(2 * 1024 * MiB),
  /** Bytes that a linter or formatter may write, so that a file with a fault in each line can't fill the thread. */
  checkerOutputBytes: bytes().default(32 * MiB),
  /** Bytes of all edits that a plan carries from the read_only host to the write host, in one message. */
  plannedBytesMax: bytes().default(12 * MiB),
  /** Issues in an answer. */
  lintIssuesMax: count().default(500),
};
