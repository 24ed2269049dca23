/** Bounds of metrics and traces. */
import { count } from './units.ts';

export const telemetryLimits = {
  /** Tools that `metrics.read` tells apart; calls to further ones count as `other`, since providers may bring any number of tools. */
  metricToolsMax: count().default(512),
};
