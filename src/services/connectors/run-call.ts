/** Runs calls of connectors' tools: their requests are made by the egress process, which reaches nothing but the connector's service. */

import { hash } from 'node:crypto';
import { waitUnlessAborted } from '../../base/powers.ts';
import { canonical } from '../../base/text/values.ts';
import { timeLimitOf } from '../../pipeline/execute/bounds.ts';
import { inTime } from '../../pipeline/execute/read-only-run.ts';
import type { Runner } from '../../pipeline/execute/runner.ts';
import { failed, type Outcome, type RunHooks, succeeded } from '../../pipeline/outcome.ts';
import type { ClearedCall } from '../../pipeline/stage.ts';
import type { NetworkLayer } from '../../policy/network.ts';
import type { HttpRequest } from '../../sandbox/egress/messages.ts';
import type { HttpAnswer } from '../../sandbox/egress/proxy-messages.ts';
import type { Connected } from '../../tools/connected.ts';
import type { DaemonParts } from '../capability.ts';
import { filesBelow, type UploadedFile, type UploadParts } from './upload.ts';

/** A call of an operation, as far as a connector needs it. */
export interface ConnectedCall {
  readonly input: unknown;
  /** Equal for each repetition of a call, also after a restart of the daemon. */
  readonly idempotencyKey: string;
  /** Makes a request, and gives the answer or why there is none. Throws the reason of an abort. */
  fetch(asked: Omit<HttpRequest, 'bytesMax' | 'withinMs'>): Promise<HttpAnswer>;
  /** The files below a folder of the workspace, as far as the call may read them. Throws FILE_LIMIT, ACCESS_DENIED. */
  filesBelow(folder: string): Promise<UploadedFile[]>;
  /** Throws the reason of an abort. */
  wait(ms: number): Promise<void>;
}

/** The connectors, as far as a call needs them. */
export interface Connections {
  /** The only destinations of an operation. Throws TOOL_DISABLED if the connector is not what the tool was made from. */
  networkOf(to: Connected): NetworkLayer;
  /** The named fields of the service's answer. Throws ToolError. */
  run(to: Connected, call: ConnectedCall): Promise<unknown>;
}

export type ConnectedParts = UploadParts &
  Pick<DaemonParts, 'egress' | 'powers'> & { readonly connectors: Connections };

/** Runs the operations of connectors, each call under its time limit. */
export const connectorRunner = (parts: ConnectedParts): Runner<'connectors'> => ({
  run: ({ operation }, call, hooks) => inTime(call, parts, () => runConnected(operation, call, parts, hooks)),
});

/** Gives the fields of the answer, or the error; `beforeStart` can still refuse the call, and what it throws is thrown. */
async function runConnected(
  to: Connected,
  call: ClearedCall,
  parts: ConnectedParts,
  { attempt, beforeStart }: RunHooks,
): Promise<Outcome> {
  const { connectors, egress, limits, powers } = parts;
  const { signal } = call.controller;
  const network = connectors.networkOf(to);
  const { connectorBodyBytesMax: bytesMax } = limits;
  let outputBytes = 0;
  const { result, egress: report } = await egress.lend([network], signal, async ({ fetch }) => {
    await beforeStart();
    attempt.started = true;
    call.announce({ status: 'in-progress', startedAt: new Date(powers.now()).toISOString() });
    const connected: ConnectedCall = {
      input: call.checked.input,
      idempotencyKey: idempotencyKeyOf(call),
      async fetch(asked) {
        const answer = await fetch({ ...asked, bytesMax, withinMs: timeLimitOf(call, limits) });
        if ('body' in answer) outputBytes += answer.body.length;
        return answer;
      },
      filesBelow: (folder) => filesBelow(folder, call, parts),
      wait: (ms) => waitUnlessAborted(ms, { signal, powers }),
    };
    return { result: await outcomeOfRun(connectors.run(to, connected)) };
  });
  const connected = report === 'lost' ? [] : report.connected;
  const usage = { cpuMs: 0, outputBytes, verdict: 'ok', enforcedBy: 'egress proxy' } as const;
  const brought = { ...attempt, usage, connected };
  return 'error' in result ? failed(result.error, brought) : succeeded(result.data, brought);
}

/** Keeps an error as a value, so that the report of the connections is kept with it. */
async function outcomeOfRun(running: Promise<unknown>): Promise<{ data: unknown } | { error: unknown }> {
  try {
    return { data: await running };
  } catch (error) {
    return { error };
  }
}

/**
 * Names a call to a service, so that the service carries it out once. Ids of calls are unique within a session only; so
 * the key depends on the input as well.
 */
function idempotencyKeyOf({ id, principal, workspace, checked }: ClearedCall): string {
  const named = canonical([principal, workspace, id, checked.tool.name, checked.input]);
  return `ringfence-${hash('sha256', named).slice(0, 40)}`;
}
