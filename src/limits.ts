/**
 * Every bound in the system, with those in limits/: its unit, its default, and the attack or cost that it bounds. A bound that nothing reads
 * fails test/tidy.test.ts. Sizes are bytes, times milliseconds.
 */
import * as z from 'zod';
import { commandLimits } from './limits/commands.ts';
import { connectionLimits } from './limits/connections.ts';
import { hostLimits } from './limits/hosts.ts';
import { isolateLimits } from './limits/isolates.ts';
import { mcpLimits } from './limits/mcp.ts';
import { pluginLimits } from './limits/plugins.ts';
import { policyLimits } from './limits/policies.ts';
import { providerLimits } from './limits/providers.ts';
import { storeLimits } from './limits/store.ts';
import { bytes, count, KiB, MiB, ms } from './limits/units.ts';

export const limitsSchema = z.strictObject({
  // The wire

  /** Largest frame accepted or sent. A decoder holds at most one per connection. */
  frameBytesMax: bytes().default(16 * MiB),
  /** How long a frame may take from its first byte to its last, so that half a frame can't hold a connection. */
  frameIdleMs: ms().default(30_000),
  /** Deepest nesting of a message; each level costs stack in every consumer. */
  messageDepthMax: count().default(64),
  /** Values in one message; 100 000 decode in about 10 ms, the longest that one message may hold up the loop. */
  messageElementsMax: count().default(100_000),
  /** Bytes waiting to be written to one peer before its requests stop being read and its notifications are dropped. */
  writeBufferBytesMax: bytes().default(4 * MiB),
  /** Requests of one peer that may wait for an answer; further ones get OVERLOADED. */
  peerRequestsMax: count().default(1024),
  /** How long requests of all connections are begun in one round of the event loop: a thousand come in one piece, of 200 connections at once. */
  servingTurnMs: ms().default(5),
  /** Bytes of one peer's unanswered requests, so that many large ones can't fill the daemon. */
  peerRequestBytesMax: bytes().default(64 * MiB),
  /** The same over all connections, so that many of them can't. */
  requestBytesMax: bytes().default(512 * MiB),

  // Sessions and calls

  /** Calls that one session may have waiting for a host; the next one gets QUEUE_FULL. */
  sessionQueueMax: count().default(1024),
  /** Calls waiting over all sessions. */
  queueMax: count().default(16_384),
  /** Ended calls remembered per session, for calls.get and for repeated call ids. */
  sessionCallsKept: count().default(1024),
  /** Ids of calls remembered per session after their results are forgotten, about 100 bytes each, so that no id has two side effects. */
  sessionCallIdsKept: count().default(65_536),
  /** Bytes of inputs and results remembered per session; the oldest are forgotten first. */
  sessionResultBytesKept: bytes().default(8 * MiB),
  /** Ended calls of programs remembered per session, beside the others: one program makes a thousand, and must push out no call of the client. */
  sessionChildCallsKept: count().default(256),
  /** Bytes of their inputs and results. */
  sessionChildResultBytesKept: bytes().default(MiB),
  /** Longest that a session waits for its client to come back (`resumeMs`); it keeps its calls, places and memory meanwhile. */
  resumeMaxMs: ms().default(600_000),
  /** Notices kept for a client that may come back; over it the oldest piece of output goes first, which `results.read` still has. */
  resumeBufferBytes: bytes().default(MiB),
  /** Sessions that wait for their clients; over it, whoever has most of them loses the one that waited longest. */
  resumesMax: count().default(64),
  /** Of these, those of one principal. */
  resumesPerPrincipalMax: count().default(32),
  /** Detached calls of one principal that have not ended, so that work can't be piled up by leaving it. */
  detachedCallsMax: count().default(64),
  /** Events kept for a subscriber that asks for what came before it (`afterSeq`). */
  eventsKept: count().default(1024),
  /** Subscriptions of one connection. */
  subscriptionsMax: count().default(16),
  /** Largest encoded result of a call; must fit a frame with its envelope. */
  resultBytesMax: bytes().default(14 * MiB),
  /** Bytes of results that are kept to be given again. */
  cacheBytesMax: bytes().default(64 * MiB),
  /** Results kept to be given again. */
  cacheEntriesMax: count().default(4096),
  /** Age at which a kept result is dropped, though everything that it was made of may be the same. */
  cacheTtlMs: ms().default(300_000),
  /** Files and directories that a kept result may be made of: each is looked at before it is given again, 5 µs each, in the gateway. */
  cacheWitnessesMax: count().default(256),
  /** Paths of one workspace that calls wait for; each end of a call looks at all of them, 8 ms as measured. */
  lockWaitingPathsMax: count().default(2048),
  /** Of these, those of one session, so that others still find room. */
  sessionLockWaitingPathsMax: count().default(1024),
  /** Longest wait between two attempts of a call. */
  retryBackoffMsMax: ms().default(30_000),
  /** Attempts of a call after its first, whatever its caller or its tool say. */
  callRetriesMax: count().default(5),
  /** Calls of one batch; its plan is made at once, in the gateway: 1 000 cost 2 ms. */
  batchCallsMax: count().default(1000),
  /** Calls that the calls of a batch may name in `dependsOn` and in references, together, however often; each costs 1 µs, at once, in the gateway. */
  batchEdgesMax: count().default(20_000),
  /** How long a batch may go on beginning calls before others have their turn; one of 3 MB takes 10 ms. */
  batchTurnMs: ms().default(10),
  /** Calls of a batch under way at once, whatever its caller asks for. */
  batchConcurrencyMax: count().default(64),
  /** Batches of one session at once; each holds results for its references. */
  sessionBatchesMax: count().default(4),
  /** Batches over all sessions. */
  batchesMax: count().default(32),
  /** Bytes that what the references of one call stand for may take, so that a thousand of them to one large result don't multiply it. */
  batchInputBytesMax: bytes().default(12 * MiB),
  /** Bytes of results that a batch holds for calls still to come. */
  batchHeldBytesMax: bytes().default(32 * MiB),
  /** Bytes of results in the answer to a batch; must fit a frame. */
  batchResultBytesMax: bytes().default(12 * MiB),
  /** Counts of rate limits kept at once, about 300 bytes each; beyond it new sessions are counted together, by rule. */
  rateKeysMax: count().default(10_000),
  /** Most that one call may be estimated at, or say that it cost, in USD: a host that lies can't use up more at once. */
  callCostUsdMax: z.number().positive().default(1_000),

  // Running

  /** How long a call may run, by tier, unless its tool says less. A caller may narrow it. */
  callTimeoutMs: z
    .strictObject({ read_only: ms(), write: ms(), execute: ms(), external_api: ms() })
    .default({ read_only: 30_000, write: 30_000, execute: 120_000, external_api: 60_000 }),
  /** Output of a command that its host may send before the gateway has taken it; then the host stops reading the command's pipes. */
  outputWindowBytes: bytes().default(512 * KiB),
  /** Connections of one command through the egress proxy at once. */
  egressCommandConnectionsMax: count().default(64),
  /**
   * The same of all commands: two descriptors each, which must stay below openFilesMax together with a listener for each
   * command. Beyond it the command that has most loses one.
   */
  egressConnectionsMax: count().default(320),
  /** Commands with a network at once; each is a listener of the proxy. */
  egressCommandsMax: count().default(256),
  /** Headers of one message through the proxy; longer ones are refused before they are held. */
  egressHeaderBytesMax: bytes().default(16 * KiB),
  /** From a connection to its whole request, so that slow ones can't hold the places of others. */
  egressHeaderMs: ms().default(10_000),
  /** Looking up a name and connecting to one of its addresses, each. */
  egressConnectMs: ms().default(10_000),
  /** A connection on which nothing moves for this long is ended. */
  egressIdleMs: ms().default(120_000),
  /** Names that one command may have looked up at once, each of which takes a thread of the proxy; its other connections wait. */
  egressLookupsMax: count().default(4),
  /** Names whose addresses the proxy keeps. */
  egressNamesKeptMax: count().default(1024),
  /** Longest time for which it keeps them; a name's own TTL may be shorter. */
  egressNameKeptMs: ms().default(300_000),
  /** Threads in which the proxy looks up names: more than the commands of one session can take, whose names never answer. */
  egressThreads: count().max(1024).default(64),
  /** Destinations of one command that are told one by one, made and refused; names are of the command's choosing. */
  egressTargetsMax: count().default(32),
  /** Characters that one host, or the proxy, may write to the log by its stderr: a program can make it write for ever. */
  hostStderrCharsMax: count().default(64 * KiB),
  /** JS heap of the proxy, in MiB; one that grows beyond it is ended, and started again for the next command. */
  egressHeapMb: count().default(128),
  /** How long the proxy may take to answer the gateway; one that does not is ended. */
  egressAnswerMs: ms().default(2_000),
  /** Directories of a workspace that are watched for what commands change; each takes one of the user's inotify watches and 2 KiB. */
  watchedDirectoriesMax: count().default(30_000),
  /** Names in them; with more, commands do not tell what they changed. 20 000 are read in 40 ms. */
  watchedNamesMax: count().default(300_000),
  /** JS heap of the thread that watches, in MiB. */
  watchHeapMb: count().default(128),
  /** How long that thread may take to answer before and after a command: others may keep it busy with what they change. */
  watchAnswerMs: ms().default(200),
  /** Changed files in the result of one command; their number is told. */
  filesChangedMax: count().default(200),
  /** HTTP requests of calls at once, over all sessions; each may hold its body and that of its answer. */
  httpRequestsMax: count().default(32),
  /** Of these, those of one session: a server that is slow is waited for by its own callers. */
  sessionHttpRequestsMax: count().default(8),
  /** Body of an answer to an HTTP request that a caller gets; what is beyond it is cut. */
  httpBodyBytesMax: bytes().default(MiB),
  /** Open files of a host. */
  openFilesMax: count().default(1024),
  /** Bytes of an index of git that is read to know which masked files it tracks, and of files that are compared with it; each thread of commands holds what it says. */
  gitIndexBytesMax: bytes().default(32 * MiB),
  /** Output of one git that is read, of lists and of diffs; a history of millions of commits is ended there. */
  gitOutputBytes: bytes().default(8 * MiB),
  /** Bytes of a diff that reach its caller; a whole one of a large change would fill a model's context. */
  gitDiffBytes: bytes().default(256 * KiB),
  /** Paths, commits or branches in one answer about a repository. */
  gitEntriesMax: count().default(2_000),
  /** How long the person's git may take to tell whom commits are by, when the daemon starts. */
  gitIdentityMs: ms().default(2_000),
  /** Largest file that a tool reads or writes. */
  fileBytesMax: bytes().default(10 * MiB),
  /** Terminals that one session may have open; each is a process tree, two threads of its host and a ring of output. */
  sessionTerminalsMax: count().default(4),
  /** Terminals over all sessions: each may hold a host of its own, of which there are hostsMax. */
  terminalsMax: count().default(16),
  /** A terminal that nobody asked about for this long is ended, so that forgotten ones hold nothing. */
  terminalIdleMs: ms().default(1_800_000),
  /** How long a terminal may go on after a file that it is kept from was replaced, which takes away the mount on it. */
  terminalLookMs: ms().default(500),
  /** Longest life of a terminal, so that polling can't keep one for ever. */
  terminalLifeMs: ms().default(14_400_000),
  /** Output of a terminal that is kept; the oldest goes first, and what is gone is told. */
  terminalLogBytes: bytes().default(256 * KiB),
  /** Output of a terminal in one answer. */
  terminalReadBytes: bytes().default(32 * KiB),
  /** Input that waits for a program which does not read, beside what the kernel holds. */
  terminalInputBytes: bytes().default(64 * KiB),
  /** Longest that a call waits for a terminal. */
  terminalWaitMs: ms().default(30_000),
  /** JS heap of the thread that draws one terminal, in MiB: marks upon marks on one letter would fill any. */
  terminalScreenHeapMb: count().default(48),
  /** How long that thread may take to catch up, so that a sequence which keeps it busy costs the picture only. */
  terminalScreenMs: ms().default(3_000),
  /** Entries of a directory listing that reach the caller; at 11 keys and values each they stay within one message. */
  listEntriesMax: count().default(5_000),
  /** Directory entries looked at by one listing, so that a tree of millions ends in time. */
  listScanMax: count().default(1_000_000),
  /** Entries of a tree that one call deletes, moves or copies; each is judged by every rule on paths, 10 000 in 0.7 s of CPU time. */
  treeEntriesMax: count().default(100_000),
  /** Directories within directories of such a tree; each is two descriptors while it is copied, of openFilesMax for all threads. */
  treeDepthMax: count().default(200),
  /** Bytes that one call copies, or changes in many files at once, so that a few calls can't fill the disk or a thread's memory. */
  changeBytesMax: bytes().default(128 * MiB),
  /** ripgreps at once in one thread of a host: each uses every core by itself, and takes memory. */
  searchesMax: count().default(4),
  /** Threads of one ripgrep, so that one search can't take a large machine for itself. */
  searchThreadsMax: count().default(4),
  /** Address space of one ripgrep; a line of 10 MB that matches at every character takes 300 MB. */
  searchMemoryBytes: bytes().default(512 * MiB),
  /** Characters of a line that a search shows, around its match: one minified file must not fill the answer. */
  searchLineChars: count().default(500),
  /** What the lines of one search may weigh in its answer, each with 64 bytes of its own; they fit one message. */
  searchResultBytes: bytes().default(4 * MiB),
  /** Paths of one search that are held in memory to be sorted, at about 200 bytes each. */
  searchPathsMax: count().default(200_000),
  /** Data of one language server, in memory; two threads of a host may have one each. 1 200 files of TypeScript take 230 to 400 MB. */
  symbolServerMemoryBytes: bytes().default(640 * MiB),
  /** The same of a process that parses; 550 MiB of it are room that its runtime reserves and does not fill. */
  symbolParserMemoryBytes: bytes().default(768 * MiB),
  /** What one of both may send for one question, so that a name which stands everywhere can't fill the thread that reads it. */
  symbolAnswerBytes: bytes().default(32 * MiB),
  /** One of both that was not asked for this long is ended, as soon as its thread has something to do. */
  symbolsIdleMs: ms().default(120_000),
  /** Files that a language server holds open at once, each as a copy; projects that one question looks into. */
  symbolFilesOpenMax: count().default(64),
  /** Of these, files that their project may leave out, opened to see; 20 ms each. */
  symbolFilesDoubtedMax: count().default(16),
  /** Sources of a workspace that are looked at before each question, 8 µs each; in larger ones the rest is left out. */
  symbolSourcesMax: count().default(50_000),
  /** Files that one question has parsed; most take 2 ms. */
  symbolParsedMax: count().default(1_000),
  /** How long a parser may take for one file: on some texts it never ends. */
  symbolParseMs: ms().default(2_000),
  /** Source that is parsed; 1 MB takes 80 ms and 100 times its size in memory. */
  symbolSourceBytesMax: bytes().default(2 * MiB),
  /** Parsers that files of one call may end before the call fails. */
  symbolParserEndsMax: count().default(3),
  /** Definitions of one name whose references are looked for when no file is said. */
  symbolDefinitionsMax: count().default(20),
  /** Characters of a line that stand for a symbol in an answer. */
  symbolLineChars: count().default(200),
  /** Lines of a tree of the workspace, so that it fits what a model reads. */
  treeLinesMax: count().default(1_000),
  /** Content that file_read_many returns in all, so that 100 files fit one message. */
  readManyBytesMax: bytes().default(4 * MiB),
  /** Text that is validated; YAML takes about 1 ms for each KiB at worst. */
  validateBytesMax: bytes().default(MiB),
  /** Longest that work whose time its input decides (a schema's patterns) may keep a thread that others share. */
  boundedWorkMs: ms().default(1000),
  /** Characters of the diff that a person is shown before a file is changed; files four times as large are not compared. */
  previewDiffBytes: bytes().default(64 * KiB),
  /** Symbolic links followed in one path, as in the kernel. */
  symlinksMax: count().default(40),
  /** How long the start-up probe of the sandbox may take. */
  probeMs: ms().default(5_000),
  /** How long after a sandbox's end a process of it may be there before it counts as having got away; the kernel takes under 10 ms. */
  probeSurvivorMs: ms().default(1_000),
  /** Names of a workspace that are held in memory to know what to mask in it, at about 100 bytes; with more, commands are refused. */
  indexEntriesMax: count().default(1_000_000),
  /** Longest that a change which the kernel did not tell of may go unnoticed by new commands; 15 000 directories are looked over in 60 ms. */
  indexSweepMs: ms().default(10_000),
  /** The same where the workspace can't be watched. */
  indexUnwatchedMs: ms().default(1_000),
  /**
   * Mounts by which one command or host is kept from paths, long paths counted as several; with more, whole directories are
   * hidden. bubblewrap takes 30 ms for 100 and 1.2 s for 1 000: files of a command's making could delay all others.
   */
  masksMax: count().default(1_000),
  /**
   * Longest absolute path that gets a mount of its own; what lies deeper is hidden with the last directory that has one.
   * bubblewrap fails from 4 088 bytes on, so that one deep file could keep every command from running.
   */
  maskPathBytesMax: bytes().max(4_080).default(4_000),
  /** Folders in folders that are looked into; what lies deeper is hidden with the last of them. Each is a step of a recursion, and a mount where a secret lies below. */
  maskDepthMax: count().default(250),
  /** Shortest time between two replacements of a host whose masks are out of date, so that files that come and go can't keep it starting. */
  hostMasksMs: ms().default(1_000),

  // Approvals

  /** Questions that one session may have before a person; a flood of them makes people say yes to everything. */
  approvalsPendingMax: count().default(16),
  /** Questions over all sessions, restarts included; each costs a row, a timer and a place in everybody's list. */
  approvalsPendingAllMax: count().default(256),
  /** Questions that one session may ask in a minute, so that an agent can't tire a person into a yes. */
  approvalsPerMinute: count().default(30),
  /** Questions of one principal in a minute, so that opening session after session does not get around the bound of one. */
  approvalsPerMinutePrincipal: count().default(120),
  /** How long the very call that a person denied is denied again without asking. */
  approvalDeniedMs: ms().default(60_000),
  /** Characters of a call's input shown to a person, and of its diff; what is left out is said. 256 of both fit a frame. */
  approvalShownChars: count().default(16 * KiB),
  /** Files, and entries of directories that a glob looks at, to which one yes is bound; looked at twice, 10 µs each. What is beyond is told, and can't be known. */
  approvalFilesMax: count().default(4_096),
  /** Answered approvals kept for reading; the audit has them all. */
  approvalsKept: count().default(4096),
  /** Remembered answers in force at once; each question looks at all of them. */
  grantsMax: count().default(256),

  // Command lines

  /** Longest command line that is read before it runs; bash takes no longer one. A longer one is unknown. */
  commandCharsMax: count().default(128 * KiB),
  /** Characters looked at in reading one, each once per brace, bracket and nested text that it may belong to: at most about 200 ms. */
  commandStepsMax: count().default(16_000_000),
  /** Nodes above a node of its syntax tree; each costs stack. */
  commandDepthMax: count().default(1_500),
  /** Commands and texts within commands (`sh -c 'sh -c …'`, `env env …`) that are read. */
  commandTextsMax: count().default(8),
  /** Simple commands and redirections that are read of one command line; each is judged by every rule on commands or paths. */
  commandPartsMax: count().default(1_000),
  /** Their words, braces unfolded. */
  commandWordsMax: count().default(10_000),
  /** Paths that their words may name; each is judged by every rule on paths. */
  commandMentionsMax: count().default(4_096),
  /** Paths that one word may hold behind its `=`, `:`, `,` and the like; a word with more is unknown. Each is judged as a path of its own. */
  commandWordPathsMax: count().default(64),
  /** Targets that a call of a plugin's or a provider's tool may name; each is judged by every rule, 0.1 ms, and holds up everybody. */
  declaredTargetsMax: count().default(1_000),
  /** Their characters together. */
  declaredTargetChars: count().default(256 * KiB),
  /** How long calls of one session, and of all, are judged before they wait as long as they took: 93 short words take 7 ms, and a thousand such lines come at once. */
  judgeTurnMs: ms().default(10),
  /** Targets of a call without a command line that is judged without waiting; each takes at most 0.1 ms. */
  judgedAtOnceTargets: count().default(16),
  /** A command line with more characters is a long one: it may take 200 ms to judge, and holds its text while it waits. */
  commandAtOnceChars: count().default(1024),
  /** Long ones that one session may have waiting to be judged. */
  commandTurnsMax: count().default(64),
  /** Directories that `cd` may have led to, from each of which relative paths are judged. */
  commandFoldersMax: count().default(16),

  ...connectionLimits,
  ...commandLimits,
  ...policyLimits,
  ...providerLimits,
  ...hostLimits,
  ...isolateLimits,
  ...mcpLimits,
  ...pluginLimits,
  ...storeLimits,
});

export type Limits = z.output<typeof limitsSchema>;

/** What one command is held to: the least of what the daemon and the policies say. */
export type CommandBounds = Limits['commandMax'] & {
  /** Output that reaches its caller, in bytes, both streams together. */
  readonly outputBytes: number;
};

/** Read once in each process: a parser compiled for it would take longer than the reading. */
export const defaultLimits: Limits = Object.freeze(limitsSchema.parse({}, { jitless: true }));
