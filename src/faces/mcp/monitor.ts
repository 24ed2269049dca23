/** `GET /metrics`, `/healthz` and `/readyz` beside MCP, for programs that watch the daemon. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { CONTENT_TYPE } from '../../store/telemetry/families.ts';

/** What monitoring programs may read, and who they are. */
export interface Monitor {
  /** Whether a token may read metrics: the metrics token and the operator's. */
  mayRead(token: string): boolean;
  metrics(): Promise<string>;
  /** Why the daemon should get no calls now; empty if it should. */
  unready(): readonly string[];
}

export type MonitorPath = '/metrics' | '/healthz' | '/readyz';

export const isMonitorPath = (path: string | undefined): path is MonitorPath =>
  path === '/metrics' || path === '/healthz' || path === '/readyz';

/** Answers an admitted request. The health paths need no token, since they tell only whether the daemon works. */
export async function answerMonitor(
  { method }: IncomingMessage,
  response: ServerResponse,
  { path, monitor }: { path: MonitorPath; monitor: Monitor },
): Promise<void> {
  if (method !== 'GET' && method !== 'HEAD')
    return send(response, 405, 'only GET is answered here\n', { allow: 'GET' });
  if (path === '/metrics') return send(response, 200, await monitor.metrics(), { 'content-type': CONTENT_TYPE });
  const problems = path === '/readyz' ? monitor.unready() : [];
  if (problems.length === 0) return send(response, 200, 'ok\n');
  send(response, 503, `not ready: ${problems.join(', ')}\n`);
}

function send(response: ServerResponse, status: number, text: string, headers: Record<string, string> = {}): void {
  response.writeHead(status, { 'content-type': 'text/plain; charset=utf-8', 'cache-control': 'no-store', ...headers });
  response.end(text);
}
