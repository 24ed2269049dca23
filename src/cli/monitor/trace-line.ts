/** The export of traces in one line, for `status` and `doctor`. */
import type { TraceStatus } from '../../store/telemetry/tracer.ts';

export function describeTraces({ sent, rejected, failed, dropped, queued, lastError }: TraceStatus): string {
  const lost = `${dropped} dropped, ${failed} failed, ${rejected} rejected by the collector`;
  const error = lastError ? `; last error, ${lastError.at}: ${lastError.reason}` : '';
  return `${sent} spans sent, ${queued} wait, ${lost}${error}`;
}

/** Whether spans were lost. */
export const losesTraces = ({ rejected, failed, dropped }: TraceStatus): boolean => rejected + failed + dropped > 0;
