/** Bounds of connectors: what a file may say, and what one call may ask a service for. Services and files are those of others. */
import { KiB, MiB } from './units.ts';

export const connectorLimits = {
  /** Connectors of one daemon. */
  connectorsMax: 32,
  /** Largest file of a connector; parsing takes about 1 ms for each KiB at worst and blocks the daemon. */
  connectorFileBytesMax: 256 * KiB,
  /** Operations of one connector; each is a tool that models are told about. */
  connectorOperationsMax: 64,
  /** Operations of one connector in the lists for models; the rest is listed where all tools are asked for. */
  connectorListedMax: 24,
  /** Largest body of one answer that is read for its fields; a larger one fails the call. */
  connectorBodyBytesMax: MiB,
  /** Characters of a value that the pattern of a parameter is compared with, which takes up to 1 µs each; a longer value is refused. */
  connectorPatternCharsMax: 4_096,
  /** Pages that one call reads, whatever its file says. */
  connectorPagesMax: 10,
  /** Items that one call collects over its pages. */
  connectorItemsMax: 1000,
  /** Further attempts after answers such as 429 and 503, whatever its file says. */
  connectorRetriesMax: 3,
  /** Longest time that a call waits because a service says so (Retry-After); a longer one fails the call. */
  connectorRetryMs: 20_000,
  /** Failures in a row after which a service is not asked for a while. */
  connectorFailuresMax: 5,
  /** Shortest time for which a service that failed is not asked; doubles with each further failure. */
  connectorPauseMs: 5_000,
  /** Longest time for which a service that failed is not asked. */
  connectorPauseMsMax: 300_000,
  /** Largest OpenAPI document that a connector file is made of; it is read by the command line, into memory. */
  openApiBytesMax: 32 * MiB,
  /** Largest OpenAPI document in YAML; reading that takes about a second for each MiB. */
  openApiYamlBytesMax: 8 * MiB,
  /** Files of the workspace that one call sends. */
  connectorUploadFilesMax: 500,
  /** Bytes of the files that one call sends; they are held in memory and encoded. */
  connectorUploadBytesMax: 5 * MiB,
};
