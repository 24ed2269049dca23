/**
 * All bounds of the system, together with limits/: the unit, the default, and the attack or cost that each bounds. test/tidy.test.ts fails
 * for a bound that nothing reads. Sizes are in bytes, times in milliseconds.
 */
import { agentLimits } from './limits/agents.ts';
import { browserLimits } from './limits/browsers.ts';
import { codeLimits } from './limits/code.ts';
import { commandLimits } from './limits/commands.ts';
import { connectionLimits } from './limits/connections.ts';
import { connectorLimits } from './limits/connectors.ts';
import { databaseLimits } from './limits/databases.ts';
import { egressLimits } from './limits/egress.ts';
import { fleetLimits } from './limits/fleet.ts';
import { hostLimits } from './limits/hosts.ts';
import { httpLimits } from './limits/http.ts';
import { isolateLimits } from './limits/isolates.ts';
import { marketLimits } from './limits/market.ts';
import { mcpLimits } from './limits/mcp.ts';
import { pageLimits } from './limits/pages.ts';
import { panelLimits } from './limits/panel.ts';
import { pluginLimits } from './limits/plugins.ts';
import { policyLimits } from './limits/policies.ts';
import { previewLimits } from './limits/previews.ts';
import { providerLimits } from './limits/providers.ts';
import { secretLimits } from './limits/secrets.ts';
import { storeLimits } from './limits/store.ts';
import { telemetryLimits } from './limits/telemetry.ts';
import { KiB, MiB } from './limits/units.ts';

const values = {
  // The wire

  /** Largest frame accepted or sent. A decoder holds at most one per connection. */
  frameBytesMax: 16 * MiB,
  /** Time from the first to the last byte of a frame, so that half a frame can't hold a connection. */
  frameIdleMs: 30_000,
  /** Deepest nesting of a message; each level costs stack in every consumer. */
  messageDepthMax: 64,
  /** Values in one message; decoding 100 000 takes about 10 ms, the longest that one message may block the event loop. */
  messageElementsMax: 100_000,
  /** Bytes waiting to be written to one peer before its requests are no longer read and its notifications are dropped. */
  writeBufferBytesMax: 4 * MiB,
  /** Unanswered requests of one peer; further ones get OVERLOADED. */
  peerRequestsMax: 1024,
  /**
   * Time in one round of the event loop for starting requests of all connections: a thousand may arrive in one chunk, from 200 connections
   * at once.
   */
  servingTurnMs: 5,
  /** Bytes of one peer's unanswered requests, so that many large ones can't fill the daemon. */
  peerRequestBytesMax: 64 * MiB,
  /** Bytes of unanswered requests over all connections, so that many connections can't fill the daemon. */
  requestBytesMax: 512 * MiB,

  // Sessions and calls

  /** Calls of one session waiting for a host; the next one gets QUEUE_FULL. */
  sessionQueueMax: 1024,
  /** Calls waiting over all sessions. */
  queueMax: 16_384,
  /** Calls of one principal under way: running, waiting, or asked about; so that opening many sessions takes no other its place. */
  principalCallsMax: 8192,
  /** Ended calls remembered for each session, for calls.get and for repeated call ids. */
  sessionCallsKept: 1024,
  /**
   * Ids of calls remembered for each session after their results are forgotten, about 100 bytes each, so that no id has two side effects.
   */
  sessionCallIdsKept: 65_536,
  /** Bytes of inputs and results remembered for each session; the oldest are forgotten first. */
  sessionResultBytesKept: 8 * MiB,
  /**
   * Ended calls of programs remembered for each session, separately from the client's: one program may make a thousand, which must not push
   * out calls of the client.
   */
  sessionChildCallsKept: 256,
  /** Bytes of inputs and results of remembered calls of programs. */
  sessionChildResultBytesKept: MiB,
  /** Longest wait of a session for its client to come back (`resumeMs`); it keeps its calls, places and memory meanwhile. */
  resumeMaxMs: 600_000,
  /** Notices kept for a client that may come back; beyond it the oldest output is dropped first, which `results.read` still has. */
  resumeBufferBytes: MiB,
  /** Sessions waiting for their clients; beyond it the principal with the most loses the one that has waited longest. */
  resumesMax: 64,
  /** Sessions of one principal waiting for their clients. */
  resumesPerPrincipalMax: 32,
  /** Running detached calls of one principal, so that work can't be piled up by leaving it. */
  detachedCallsMax: 64,
  /** Events kept for subscribers that ask for earlier ones (`afterSeq`). */
  eventsKept: 1024,
  /** Subscriptions of one connection. */
  subscriptionsMax: 16,
  /** Largest encoded result of a call; must fit a frame with its envelope. */
  resultBytesMax: 14 * MiB,
  /** Bytes of cached results. */
  cacheBytesMax: 64 * MiB,
  /** Number of cached results. */
  cacheEntriesMax: 4096,
  /** Age at which a cached result is dropped, even if everything that it depends on is unchanged. */
  cacheTtlMs: 300_000,
  /** Files and directories that a cached result may depend on; the gateway checks each one before every reuse, 5 µs each. */
  cacheWitnessesMax: 256,
  /** Paths of one workspace that calls wait to lock; the end of every call checks all of them, 8 ms as measured. */
  lockWaitingPathsMax: 2048,
  /** Paths that calls of one session wait to lock, so that other sessions still find room. */
  sessionLockWaitingPathsMax: 1024,
  /** Longest delay between two attempts of a call. */
  retryBackoffMsMax: 30_000,
  /** Further attempts of a call after the first, whatever its caller or its tool requests. */
  callRetriesMax: 5,
  /** Calls of one batch; the gateway plans them at once, 2 ms for 1 000. */
  batchCallsMax: 1000,
  /** Dependencies of a batch in `dependsOn` and in references, repetitions included; resolved at once, 1 µs each. */
  batchEdgesMax: 20_000,
  /** Time for which one batch may start calls before other work gets its turn; a batch of 3 MB takes 10 ms. */
  batchTurnMs: 10,
  /** Running calls of one batch, whatever its caller requests. */
  batchConcurrencyMax: 64,
  /** Running batches of one session; each holds results for its references. */
  sessionBatchesMax: 4,
  /** Running batches over all sessions. */
  batchesMax: 32,
  /** Ended batches that operators can still look at; the oldest goes for a new one. */
  batchesKept: 100,
  /**
   * Calls and dependencies of the batches that operators can look at, 300 and 60 bytes each, without inputs and results, so
   * that batches of many calls are kept for less long.
   */
  batchCallsKept: 20_000,
  /** Bytes of the values that replace the references of one call, so that a thousand references to one large result don't multiply it. */
  batchInputBytesMax: 12 * MiB,
  /** Bytes of results that a batch holds for its later calls. */
  batchHeldBytesMax: 32 * MiB,
  /** Bytes of results in the answer to a batch; must fit a frame. */
  batchResultBytesMax: 12 * MiB,
  /** Rate limit counters kept at once, about 300 bytes each; beyond it new sessions share one counter for each rule. */
  rateKeysMax: 10_000,
  /** Highest estimated or reported cost of one call, in USD, so that a lying host can't use up more at once. */
  callCostUsdMax: 1_000,

  // Running

  /** Longest time of a call by tier, unless its tool says less. A caller may lower it. */
  callTimeoutMs: { read_only: 30_000, write: 30_000, execute: 120_000, external_api: 60_000 },
  /** Output of a command that its host may send before the gateway has processed it; then the host stops reading the command's pipes. */
  outputWindowBytes: 512 * KiB,
  ...egressLimits,
  /**
   * Folders of a workspace whose changes are followed; each takes 1 KiB of the kernel's memory and one of the user's inotify watches, of
   * which at most half are taken. A command that makes more is ended.
   */
  watchedDirectoriesMax: 200_000,
  /** Names that are known before a command, and changes counted while it runs; with more it does not report them, nor can it be undone. */
  watchedNamesMax: 300_000,
  /** Time for the follower to answer before and after a command; other programs may keep it busy with their changes. */
  watchAnswerMs: 200,
  /** Changed files listed in the result of one command; their total is reported as well. */
  filesChangedMax: 200,
  ...httpLimits,
  /** Open files of a host. */
  openFilesMax: 1024,
  /**
   * Bytes of a git index that is read to find masked files that git tracks, and of files compared with it; each command thread holds its
   * result.
   */
  gitIndexBytesMax: 32 * MiB,
  /** Bytes read from one git process for lists and diffs; a history of millions of commits is cut there. */
  gitOutputBytes: 8 * MiB,
  /** Bytes of a diff that reach its caller; a complete diff of a large change would fill a model's context. */
  gitDiffBytes: 256 * KiB,
  /** Paths, commits or branches in one answer about a repository. */
  gitEntriesMax: 2_000,
  /** Time for the person's git to report the author of commits when the daemon starts. */
  gitIdentityMs: 2_000,
  /** Largest file that a tool reads or writes. */
  fileBytesMax: 10 * MiB,
  /** Open terminals and commands in the background of one session; a terminal is a process tree, two threads of its host and an output buffer. */
  sessionTerminalsMax: 4,
  /** Terminals and commands in the background over all sessions; each may need a host of its own, of which there are hostsMax. */
  terminalsMax: 16,
  /**
   * Time without a request after which a terminal is ended, and a command in the background that has ended is forgotten, so that forgotten
   * ones hold nothing.
   */
  terminalIdleMs: 1_800_000,
  /** Time for which a terminal or a command in the background may continue after a masked file was replaced, which removes the mount that hides it. */
  terminalLookMs: 500,
  /** Longest life of a terminal or a command in the background, so that polling can't keep one forever. */
  terminalLifeMs: 14_400_000,
  /** Commands in the background of one principal that go on when their session ends, so that leaving them piles up nothing. */
  detachedCommandsMax: 4,
  /** Ports of commands in the background that are open for people at once; each is a process of about 50 MB in their hosts. */
  forwardsMax: 8,
  /** Connections to one such port at once; a browser opens six. */
  forwardConnectionsMax: 64,
  /** Bytes of kept output of a terminal or a command in the background; the oldest is dropped first, and answers say so. */
  terminalLogBytes: 256 * KiB,
  /** Bytes of such output in one answer. */
  terminalReadBytes: 32 * KiB,
  /** Bytes of input waiting for a program that does not read, in addition to the kernel's buffer. */
  terminalInputBytes: 64 * KiB,
  /** Longest time that a call waits for a terminal, or for a command in the background. */
  terminalWaitMs: 30_000,
  /** JavaScript heap of the thread that renders one terminal, in MiB: combining marks on one letter could fill any heap. */
  terminalScreenHeapMb: 48,
  /** Time for the rendering thread to catch up, so that an expensive sequence costs only the picture. */
  terminalScreenMs: 3_000,
  /** Entries of a directory listing that reach the caller; with 11 keys and values each they fit into one message. */
  listEntriesMax: 5_000,
  /** Directory entries read by one listing, so that a tree of millions ends in time. */
  listScanMax: 1_000_000,
  /** Entries of a tree that one call deletes, moves or copies; every path rule judges each, 10 000 in 0.7 s of CPU time. */
  treeEntriesMax: 100_000,
  /**
   * Depth of a tree that one call deletes, moves or copies; each level takes two descriptors while it is copied, out of openFilesMax for
   * all threads.
   */
  treeDepthMax: 200,
  /** Bytes that one call copies, or changes in many files, so that a few calls can't fill the disk or a thread's memory. */
  changeBytesMax: 128 * MiB,
  /** Running ripgrep processes of one host thread: each uses every core and takes memory. */
  searchesMax: 4,
  /** Threads of one ripgrep process, so that one search can't occupy a large machine. */
  searchThreadsMax: 4,
  /** Address space of one ripgrep process; a line of 10 MB that matches at every character takes 300 MB. */
  searchMemoryBytes: 512 * MiB,
  /** Characters of a line that a search shows around a match: one minified file must not fill the answer. */
  searchLineChars: 500,
  /** Bytes of the lines in one search answer, each with 64 bytes of overhead; they fit into one message. */
  searchResultBytes: 4 * MiB,
  /** Paths of one search held in memory for sorting, about 200 bytes each. */
  searchPathsMax: 200_000,
  /** Data memory of one language server; two threads of a host may have one each. 1 200 TypeScript files take 230 to 400 MB. */
  symbolServerMemoryBytes: 640 * MiB,
  /** Data memory of one parser process; its runtime reserves 550 MiB of it without filling them. A source of 200 000 tokens takes 270 MB, the modules of 1 300 sources 280. */
  symbolParserMemoryBytes: 1024 * MiB,
  /** Bytes that a language server or parser may send for one question, so that a very common name can't fill the thread that reads them. */
  symbolAnswerBytes: 32 * MiB,
  /** Idle time after which a language server or parser is ended, as soon as its thread has other work. */
  symbolsIdleMs: 120_000,
  /** Files that a language server holds open at once, each as a copy, and projects that one question searches. */
  symbolFilesOpenMax: 64,
  /** Opened files that their project may not include; each takes 20 ms. */
  symbolFilesDoubtedMax: 16,
  /** Source files of a workspace checked before each question, 8 µs each; in larger workspaces the rest is ignored. */
  symbolSourcesMax: 50_000,
  /** Files parsed for one question; most take 2 ms. */
  symbolParsedMax: 1_000,
  /** Time for parsing one file: on some texts a parser never ends. */
  symbolParseMs: 2_000,
  /** Bytes of source that is parsed; 1 MB takes 80 ms and 100 times its size in memory. */
  symbolSourceBytesMax: 2 * MiB,
  /** Parsers that the files of one call may crash before the call fails. */
  symbolParserEndsMax: 3,
  /** Definitions of one name whose references are searched when no file is given. */
  symbolDefinitionsMax: 20,
  /** Characters of a line that show a symbol in an answer. */
  symbolLineChars: 200,
  /** Lines of a workspace tree in an answer, so that it fits a model's context. */
  treeLinesMax: 1_000,
  /** Bytes of content that file_read_many returns in all, so that 100 files fit into one message. */
  readManyBytesMax: 4 * MiB,
  /** Bytes of text that is validated; YAML takes about 1 ms for each KiB at worst. */
  validateBytesMax: MiB,
  /** Longest time that input-dependent work (such as a schema's patterns) may occupy a shared thread. */
  boundedWorkMs: 1000,
  /** Characters of the diff shown to a person before a file is changed; files four times as large are not compared. */
  previewDiffBytes: 64 * KiB,
  /** Symbolic links followed in one path, as in the kernel. */
  symlinksMax: 40,
  /** Time for the sandbox probe at start. */
  probeMs: 5_000,
  /** Time after a sandbox's end in which a process of it may still exist before it counts as escaped; the kernel takes under 10 ms. */
  probeSurvivorMs: 1_000,
  /** Names of a workspace held in memory to find what to mask, about 100 bytes each; with more, commands are refused. */
  indexEntriesMax: 1_000_000,
  /**
   * Longest time that a change without a kernel notification may stay unnoticed by new commands; checking 15 000 directories takes 60 ms.
   */
  indexSweepMs: 10_000,
  /** Longest time that a change may stay unnoticed in a workspace that can't be watched. */
  indexUnwatchedMs: 1_000,
  /**
   * Mounts that hide paths from one command or host, long paths counted as several; with more, whole directories are hidden. bubblewrap
   * takes 30 ms for 100 and 1.2 s for 1 000, so files that a command creates could delay all others.
   */
  masksMax: 1_000,
  /**
   * Longest absolute path that gets its own mount; anything deeper is hidden together with its last directory that has one. bubblewrap
   * fails from 4 088 bytes on, so one deep file could keep every command from running.
   */
  maskPathBytesMax: 4_000,
  /**
   * Depth of directories that are searched for paths to mask; anything deeper is hidden with the last directory. Each level is a recursion
   * step, and a mount if a secret lies below.
   */
  maskDepthMax: 250,
  /** Shortest time between two replacements of a host with outdated masks, so that files that come and go can't keep it restarting. */
  hostMasksMs: 1_000,

  // Approvals

  /** Pending questions of one session; a flood of them makes people approve everything. */
  approvalsPendingMax: 16,
  /** Pending questions over all sessions, restarts included; each costs a row, a timer and an entry in every list. */
  approvalsPendingAllMax: 256,
  /** Questions of one session in a minute, so that an agent can't tire a person into approving. */
  approvalsPerMinute: 30,
  /** Questions of one principal in a minute, so that opening many sessions does not evade the bound of one. */
  approvalsPerMinutePrincipal: 120,
  /** Time for which an identical call is denied again without asking after a person denied it. */
  approvalDeniedMs: 60_000,
  /** Characters shown to a person of a call's input, and of its diff; cuts are marked. 256 of both fit into a frame. */
  approvalShownChars: 16 * KiB,
  /**
   * Files, and directory entries that a glob reads, that one approval is bound to; each is read twice, 10 µs each. Those beyond it are
   * reported as not known.
   */
  approvalFilesMax: 4_096,
  /** Answered approvals kept for reading; the audit log has them all. */
  approvalsKept: 4096,
  /** Remembered answers in force; each question checks all of them. */
  grantsMax: 256,

  // Command lines

  /** Longest command line that is analysed before it runs; bash accepts no longer one. A longer one counts as unknown. */
  commandCharsMax: 128 * KiB,
  /**
   * Characters read while analysing a command line, counted again for each brace, bracket and nested text that may contain them: at most
   * about 200 ms.
   */
  commandStepsMax: 16_000_000,
  /** Depth of a command line's syntax tree; each level costs stack. */
  commandDepthMax: 1_500,
  /** Levels of commands and texts within commands (`sh -c 'sh -c …'`, `env env …`) that are analysed. */
  commandTextsMax: 8,
  /** Simple commands and redirections analysed in one command line; every rule on commands or paths judges each. */
  commandPartsMax: 1_000,
  /** Words of a command line after brace expansion; bounds the work of judging one. */
  commandWordsMax: 10_000,
  /** Paths that the words of a command line may name; every path rule judges each. */
  commandMentionsMax: 4_096,
  /**
   * Paths that one word may hold after `=`, `:`, `,` and similar characters; a word with more counts as unknown. Each is judged as a path.
   */
  commandWordPathsMax: 64,
  /** Targets that a call of a plugin's or a provider's tool may name; every rule judges each, 0.1 ms, which delays all other calls. */
  declaredTargetsMax: 1_000,
  /** Characters of all targets that a call of a plugin's or a provider's tool may name. */
  declaredTargetChars: 256 * KiB,
  /**
   * Time for judging calls of one session, and of all sessions, before further ones wait as long as that took: 93 short words take 7 ms,
   * and a thousand such lines may arrive at once.
   */
  judgeTurnMs: 10,
  /** Targets of a call without a command line that is judged without waiting; each takes at most 0.1 ms. */
  judgedAtOnceTargets: 16,
  /** Characters from which a command line counts as long: judging it may take 200 ms, and it holds its text while it waits. */
  commandAtOnceChars: 1024,
  /** Long command lines of one session waiting to be judged. */
  commandTurnsMax: 64,
  /** Directories that `cd` may have changed to; relative paths are judged from each of them. */
  commandFoldersMax: 16,
  /** Tools of providers and connectors together in the lists for models; of more, none is listed, and tools_search finds them. */
  foreignToolsListedMax: 24,

  ...agentLimits,
  ...browserLimits,
  ...codeLimits,
  ...connectionLimits,
  ...commandLimits,
  ...connectorLimits,
  ...databaseLimits,
  ...fleetLimits,
  ...policyLimits,
  ...previewLimits,
  ...providerLimits,
  ...hostLimits,
  ...isolateLimits,
  ...marketLimits,
  ...mcpLimits,
  ...pageLimits,
  ...panelLimits,
  ...pluginLimits,
  ...secretLimits,
  ...storeLimits,
  ...telemetryLimits,
};

export type Limits = typeof values;

/** Bounds of one command: the lowest values of the daemon and its policies. */
export type CommandBounds = Limits['commandMax'] & {
  /** Bytes of output that reach its caller, both streams together. */
  readonly outputBytes: number;
};

export const defaultLimits: Limits = Object.freeze(values);
