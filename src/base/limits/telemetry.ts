/** Bounds of metrics and traces. */

export const telemetryLimits = {
  /** Tools that `metrics.read` tells apart; calls to further ones count as `other`, since providers may bring any number of tools. */
  metricToolsMax: 512,
  /** Newest entries of the record that `tools.stats` counts, so that an operator's question ends: a million take seconds. */
  toolStatsEntriesMax: 1_000_000,
  /**
   * Ended spans in memory until a collector takes them, about 500 bytes each; further ones are dropped and counted, so that a slow
   * collector costs no call anything.
   */
  traceQueueMax: 4096,
  /** Spans in one request to a collector; writing them takes the gateway's thread about 1 ms. */
  traceBatchMax: 512,
  /** Time between two requests to a collector, so that traces of many calls take only a part of the gateway's thread. */
  traceExportEveryMs: 250,
  /** Time for one request to a collector; one that does not answer must not hold up those behind it for good. */
  traceExportMs: 10_000,
  /** Requests with the same spans to a collector that does not take them; then they are dropped and counted. */
  traceAttemptsMax: 5,
  /** Longest time between two of those requests; it doubles from 1 s. */
  traceBackoffMsMax: 30_000,
  /** Time in which a daemon that ends sends what is left. */
  traceFlushMs: 1000,
  /** Stages of one call that become spans; a call that is retried has several of each. */
  traceStagesMax: 64,
};
