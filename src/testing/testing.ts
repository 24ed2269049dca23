/** The library that authors of tools, plugins, connectors and agents test with: `ringfence/testing`. */
export type { Effect, ToolResult } from '../base/call.ts';
export type { Client } from '../client/client.ts';
export type { Approval } from '../store/approvals/approval.ts';
export type { Added } from './added.ts';
export { type ConnectorTestOptions, testConnector } from './added-connector.ts';
export { testPlugin } from './added-plugin.ts';
export type { ApprovalScript, AskedQuestion, ScriptedAnswer } from './approval-script.ts';
export {
  type ConnectOptions,
  startTestDaemon,
  type TestClock,
  type TestDaemon,
  type TestDaemonOptions,
} from './daemon.ts';
export type { StartedProcess } from './messages.ts';
export type { ServiceAnswer, ServiceRequest } from './played-http.ts';
export type { ExpectedProcess, ProcessAnswer, ProcessMatcher, ProcessScript } from './processes.ts';
export type { ToolPromise } from './tool-contract.ts';
export * from './without-daemon.ts';
