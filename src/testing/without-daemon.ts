/** What of `ringfence/testing` needs no daemon, and is `ringfence-client/testing`: a model that plays a script, recorded calls. */
export {
  type Dialect,
  type ModelReply,
  type ModelRequest,
  type ModelScript,
  ModelServer,
  type ScriptedCall,
} from './model-server.ts';
export { type RecordedCall, Recorder, Replayer, type ToolCaller } from './recording.ts';
