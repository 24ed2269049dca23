/** Bounds of sub-agents: their number and depth, their conversations with models, and what is kept of them. */
import { KiB, MiB } from './units.ts';

export const agentLimits = {
  /** Sub-agents that run at once below one outermost session, those of sub-agents included; each is a process. */
  tasksAtOnceMax: 4,
  /** How deep sub-agents start further ones: at 2 a sub-agent has sub-agents, which have none. */
  taskDepthMax: 2,
  /** Answers of its model that a sub-agent may have at most, whatever its caller asks for. */
  taskCyclesMax: 50,
  /** Time of a sub-agent without a budget of time; its clock stops while a person is asked. */
  taskMs: 1_800_000,
  /** Time in which a person answers a question about a call of a sub-agent; without an answer the call is refused. */
  taskQuestionMs: 120_000,
  /** Characters of the task of a sub-agent, and of the context for it. */
  taskPromptChars: 128 * KiB,
  /** Characters of one result of a tool that the model of a sub-agent gets; of a longer one it gets the beginning and the end. */
  taskResultChars: 32 * KiB,
  /** Characters of a conversation beyond which older results of tools are cut to their beginning and end. */
  taskContextChars: 400 * KiB,
  /** Time for compiling the schema of an answer, and for checking the answer: patterns may take for ever. */
  taskSchemaMs: 10_000,
  /** Bytes of one answer of a model, as streamed: a model may go on for ever. */
  modelAnswerBytes: 8 * MiB,
  /** Characters of one line of a streamed answer. */
  modelLineChars: MiB,
  /** Time for which a model may send nothing. */
  modelIdleMs: 60_000,
  /** Time for one whole answer of a model. */
  modelAnswerMs: 600_000,
  /** Further attempts after a model server said that it is busy. */
  modelRetriesMax: 4,
  /** Longest wait that a busy model server may ask for; one that asks for more ends the task. */
  modelRetryMs: 60_000,
  /** Tasks whose transcripts are kept; the oldest is dropped for a new one. */
  tasksKept: 200,
  /** Bytes of one transcript; what comes after them is left out. */
  taskTranscriptBytes: 2 * MiB,
};
