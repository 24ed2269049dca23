/** The library that authors of tools, plugins, connectors and agents test with: `ringfence/testing`. */
import { type Added, addConnector, addPlugin, type ConnectorTestOptions } from './added.ts';
import { startDaemon, type TestDaemon, type TestDaemonOptions, type TestMachine } from './daemon.ts';

export type { Effect, ToolResult } from '../base/call.ts';
export type { Client } from '../client/client.ts';
export type { Approval } from '../store/approvals/approval.ts';
export type { Added, ConnectorTestOptions } from './added.ts';
export type { ApprovalScript, AskedQuestion, ScriptedAnswer } from './approval-script.ts';
export type { ConnectOptions, TestClock, TestDaemon, TestDaemonOptions } from './daemon.ts';
export type { StartedProcess } from './messages.ts';
export {
  type Dialect,
  type ModelReply,
  type ModelRequest,
  type ModelScript,
  ModelServer,
  type ScriptedCall,
} from './model-server.ts';
export type { ServiceAnswer, ServiceRequest } from './played-http.ts';
export type { ExpectedProcess, ProcessAnswer, ProcessMatcher, ProcessScript } from './processes.ts';
export { type RecordedCall, Recorder, Replayer, type ToolCaller } from './recording.ts';
export type { ToolPromise } from './tool-contract.ts';

/** What this process knows of its machine: where programs are. */
const machine = (): TestMachine => ({ path: process.env.PATH ?? '' });

/** Starts a real daemon for a test. Rejects with the daemon's own message if it does not start. */
export const startTestDaemon = (options: TestDaemonOptions = {}): Promise<TestDaemon> =>
  startDaemon(options, machine());

/** Starts a daemon with the plugin of a folder. Rejects with every reason why it would not be taken. */
export const testPlugin = (folder: string, options: TestDaemonOptions = {}): Promise<Added> =>
  addPlugin(folder, options, machine());

/**
 * Starts a daemon with the connector of a file or a preset, whose service the test plays. Rejects with every reason why
 * it would not be taken.
 */
export const testConnector = (target: string, options: ConnectorTestOptions): Promise<Added> =>
  addConnector(target, options, machine());
