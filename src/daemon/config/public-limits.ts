/** The limits that config.yaml may set: those that a person or a machine has a reason to. All others are fixed. */
export const PUBLIC_LIMITS: readonly string[] = `
  approvalsPerMinute approvalsPerMinutePrincipal auditBytesMax auditMinAgeMs auditOverflowBytesMax
  auditPrincipalShare auditRetentionMs browserMemoryMb cacheBytesMax callBytesKept callTimeoutMs callsKept
  callsKeptMs commandMax commandOutputBytesMax commandTmpBytes connectionsMax costDaysKept daemonLogBytesMax
  databaseCellsMax databaseCostMax databaseDuckdbBytes databaseHeapBytes databaseResultBytes databaseRowsMax
  databaseWireBytes detachedCallsMax detachedCommandsMax doorQuestionsMax doorQuestionsPerHour doorUploadBytesMax
  fileBytesMax fleetBundleBytes fleetKeptMax fleetKeptMs fleetMembersMax fleetSessionsMax fleetWindowBytes
  forwardsMax frameBytesMax homeBytesMax hostCommandsMemoryMb hostIdleMs hostThreadsMax hostsMax indexEntriesMax
  journalBytesMax journalCallBytesMax journalCallsMax journalKeptMs journalPathsMax mcpApprovalWaitMs
  mcpSessionIdleMs mcpSessionsPerPrincipalMax mcpTextBytesMax pageBytesMax pageCpuMs panelIdleMs panelSessionsMax
  previewBytesMax principalCallsMax principalConnectionShare queueMax resultLogBytesMax resultLogTotalBytesMax
  resumeMaxMs secretCommandMs serviceCheckEveryMs sessionQueueMax sessionTerminalsMax shadowBytesMax
  shadowFileBytesMax shadowFilesMax shutdownGraceMs terminalIdleMs terminalLifeMs terminalLogBytes upgradeDrainMs
  watchedDirectoriesMax webCacheBytesMax
`
  .trim()
  .split(/\s+/);
