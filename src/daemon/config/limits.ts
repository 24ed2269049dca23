/** The limits that config.yaml sets. */
import { totalmem } from 'node:os';
import * as z from 'zod';
import { MiB } from '../../base/limits/units.ts';
import { defaultLimits, type Limits } from '../../base/limits.ts';
import { isRecord } from '../../base/text/values.ts';

/** The limits that config.yaml may set: those that a person or a machine has a reason to. All others are fixed. */
export const PUBLIC_LIMITS: readonly string[] = `
  approvalsPerMinute approvalsPerMinutePrincipal auditBytesMax auditMinAgeMs auditOverflowBytesMax
  auditPrincipalShare auditRetentionMs browserMemoryMb cacheBytesMax callBytesKept callTimeoutMs callsKept
  callsKeptMs commandMax commandOutputBytesMax commandTmpBytes connectionsMax costDaysKept daemonLogBytesMax
  databaseCellsMax databaseCostMax databaseDuckdbBytes databaseHeapBytes databaseResultBytes databaseRowsMax
  databaseWireBytes detachedCallsMax detachedCommandsMax doorQuestionsMax doorQuestionsPerHour doorUploadBytesMax
  fileBytesMax fleetBundleBytes fleetKeptMax fleetKeptMs fleetMembersMax fleetSessionsMax
  forwardsMax frameBytesMax homeBytesMax hostCommandsMemoryMb hostIdleMs hostThreadsMax hostsMax indexEntriesMax
  journalBytesMax journalCallBytesMax journalCallsMax journalKeptMs journalPathsMax learnedToolsMax mcpApprovalWaitMs
  mcpSessionIdleMs mcpSessionsPerPrincipalMax mcpTextBytesMax pageBytesMax pageCpuMs panelIdleMs panelSessionsMax
  previewBytesMax principalCallsMax principalConnectionShare queueMax resultLogBytesMax resultLogTotalBytesMax
  resumeMaxMs secretCommandMs serviceCheckEveryMs sessionQueueMax sessionTerminalsMax shadowBytesMax
  shadowFileBytesMax shadowFilesMax shutdownGraceMs terminalIdleMs terminalLifeMs terminalLogBytes upgradeDrainMs
  watchedDirectoriesMax webCacheBytesMax
`
  .trim()
  .split(/\s+/)
  // A capability that is taken out takes its limits along; names that no limit has any more are left out.
  .filter((it) => Object.hasOwn(defaultLimits, it));

const whole = z.int().min(1);
const wholeOrNone = z.int().min(0);
const share = z.number().gt(0).max(1);

/** Limits that may be something else than a whole number from 1. */
const OTHERS: Readonly<Record<string, z.ZodType>> = {
  auditMinAgeMs: wholeOrNone,
  auditPrincipalShare: share,
  learnedToolsMax: wholeOrNone.max(1_000),
  daemonLogBytesMax: z.int().min(4096),
  mcpApprovalWaitMs: wholeOrNone,
  principalConnectionShare: share,
  shutdownGraceMs: wholeOrNone,
  upgradeDrainMs: wholeOrNone,
  watchedDirectoriesMax: whole.max(200_000),
};

const standards: Readonly<Record<string, unknown>> = defaultLimits;

const settingOf = (name: string, standard: unknown): z.ZodType =>
  isRecord(standard) ? settingsOf(Object.keys(standard), standard) : (OTHERS[name] ?? whole);

const settingsOf = (names: readonly string[], of: Readonly<Record<string, unknown>>) =>
  z.strictObject(Object.fromEntries(names.map((name) => [name, settingOf(name, of[name]).optional()])), {
    error: ({ code, keys }) =>
      code === 'unrecognized_keys' ? (keys as string[]).map(refusedLimit).join('; ') : undefined,
  });

function refusedLimit(name: string): string {
  const value = standards[name];
  const what = value === undefined ? `there is no limit ${name}` : `${name} is fixed at ${JSON.stringify(value)}`;
  return `${what}; docs/configuration.md lists the limits that can be set`;
}

export const limitSettings = settingsOf(PUBLIC_LIMITS, standards);

/** Any limit with any value, for tests of Ringfence itself. */
export const internalLimitSettings = z.record(
  z.string().refine((it) => Object.hasOwn(standards, it), 'there is no such limit'),
  z.unknown(),
);

/** The most memory that a command gets by default, in MiB. */
const MEMORY_MB_MAX = 8192;

/** All limits, the last of several settings winning; memory is by default a part of the machine's, or of the daemon's control group. */
export function toLimits(...settings: readonly (Readonly<Record<string, unknown>> | undefined)[]): Limits {
  const machineMb = Math.floor(Math.min(totalmem(), process.constrainedMemory() || Infinity) / MiB);
  const memoryMb = Math.min(Math.floor(machineMb / 2), MEMORY_MB_MAX);
  const machine = { hostCommandsMemoryMb: Math.floor((machineMb * 3) / 4), commandMax: { memoryMb } };
  const limits: Record<string, unknown> = { ...standards };
  for (const [name, value] of [machine, ...settings].flatMap((it) => Object.entries(it ?? {})))
    limits[name] = isRecord(value) ? { ...(limits[name] as object), ...value } : value;
  return Object.freeze(limits as Limits);
}
