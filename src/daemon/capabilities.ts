/**
 * The capabilities of a daemon that carry out calls in their own way: each entry is the runner of one room. Without its line the
 * tools that name it in `runs` answer TOOL_DISABLED; services.ts still creates what the room needs.
 */

import type { Runners } from '../pipeline/execute/runner.ts';
import { agentRunner, type RunTaskParts } from '../services/agents/run-task.ts';
import { type ConnectedParts, connectorRunner } from '../services/connectors/run-call.ts';
import { databaseRunner, type ServerParts } from '../services/databases/run-statement.ts';
import { type ProgramParts, programRunner } from '../services/programs/run-program.ts';
import { providerRunner, type UpstreamParts } from '../services/providers/run-call.ts';
import { type ToolchainRequests, toolchainRunner } from '../services/toolchains/requests.ts';
import { type WebParts, webRunner } from '../services/web/runner.ts';

/** All that the capabilities need of the daemon. */
export type CapabilityParts = RunTaskParts &
  ConnectedParts &
  ServerParts &
  ProgramParts &
  UpstreamParts &
  WebParts & { readonly toolchains: ToolchainRequests };

export const createRunners = (parts: CapabilityParts): Runners => ({
  agents: agentRunner(parts),
  connectors: connectorRunner(parts),
  databases: databaseRunner(parts),
  isolates: programRunner(parts),
  providers: providerRunner(parts),
  toolchains: toolchainRunner(parts),
  web: webRunner(parts),
});
