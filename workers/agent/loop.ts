/**
 * The loop of a sub-agent: asks the model, has its calls carried out, and asks again with their results. It decides
 * nothing: which model is asked, what a call may do and when the task is over is decided by who answers `ask`.
 */

import { ToolError } from '../../src/base/errors.ts';
import type { Limits } from '../../src/base/limits.ts';
import { parseJson } from '../../src/base/text/json.ts';
import { isRecord } from '../../src/base/text/values.ts';
import type {
  AgentJob,
  AgentResult,
  AnsweredAsk,
  ModelAsk,
  ModelStream,
  TurnAnswer,
} from '../../src/services/agents/messages.ts';
import { checkAnswer } from './answer-schema.ts';
import { anthropic } from './anthropic.ts';
import { Conversation } from './conversation.ts';
import type { CallResult, ModelAnswer, ReadAnswer } from './dialect.ts';
import { eventsIn } from './events.ts';
import { openai } from './openai.ts';

export interface AgentLine {
  /** Throws the ToolError that ends the task. */
  askModel(asked: ModelAsk): Promise<ModelStream>;
  /** Throws the ToolError that ends the task. */
  answered(answer: AnsweredAsk): Promise<TurnAnswer>;
}

type LoopLimits = Pick<Limits, 'modelLineChars' | 'taskContextChars' | 'taskSchemaMs'>;

const MALFORMED = 'its model wrote arguments that are no JSON object twice in a row';

/** Runs a task to its end. Throws what `line` throws, and UPSTREAM_FAILED for a stream that can't be read. */
export async function runLoop(job: AgentJob, line: AgentLine, limits: LoopLimits): Promise<AgentResult> {
  const dialect = job.dialect === 'openai' ? openai : anthropic;
  const conversation = new Conversation(dialect, limits.taskContextChars);
  conversation.user(job.prompt);
  let hasErred = false;
  for (;;) {
    const { body } = await line.askModel({ system: job.system, messages: conversation.messages });
    const answer = dialect.read(eventsIn(body, limits.modelLineChars));
    assertSomething(answer);
    const { calls, malformed } = toCalls(answer);
    conversation.answer({ text: answer.text, calls: inOrder(answer, calls) });
    const turn = await line.answered({
      text: answer.text,
      calls: calls.map(({ id, name, input }) => ({ id, tool: name, input })),
      malformed: malformed.map((it) => it.name),
      usage: answer.usage,
      cut: answer.cut,
    });
    if (turn.over) return { text: answer.text };
    if (answer.calls.length > 0) {
      if (malformed.length > 0 && hasErred) return { text: answer.text, problem: MALFORMED };
      hasErred = malformed.length > 0;
      const byId = new Map([...turn.results, ...malformed.map(toRefusal)].map((it) => [it.id, it]));
      conversation.results(answer.calls.map(({ id }) => byId.get(id) as CallResult));
      continue;
    }
    if (!job.output) return { text: answer.text };
    const { value, problem } = await checkAnswer(answer.text, job.output, limits);
    if (problem === undefined) return { text: answer.text, output: value };
    if (hasErred) return { text: answer.text, problem: `its last answer does not fit the schema: ${problem}` };
    hasErred = true;
    conversation.user(`Your answer does not fit the schema: ${problem}\nAnswer with one JSON value that does.`);
  }
}

function assertSomething({ text, calls }: ModelAnswer): void {
  if (text === '' && calls.length === 0) throw new ToolError('UPSTREAM_FAILED', 'the model answered nothing');
}

interface MalformedCall {
  readonly id: string;
  readonly name: string;
  readonly why: string;
}

type ReadCall = ReadAnswer['calls'][number];

/** The calls whose arguments are a JSON object, and the others. */
function toCalls({ calls }: ModelAnswer): { calls: ReadCall[]; malformed: MalformedCall[] } {
  const good: ReadCall[] = [];
  const malformed: MalformedCall[] = [];
  for (const { id, name, arguments: text } of calls) {
    const input = inputIn(text);
    if (typeof input === 'string') malformed.push({ id, name, why: input });
    else good.push({ id, name, input });
  }
  return { calls: good, malformed };
}

/** The input of a call, or what is wrong with its text. */
function inputIn(text: string): Record<string, unknown> | string {
  if (text.trim() === '') return {};
  try {
    const value = parseJson(text);
    return isRecord(value) ? value : 'they are no JSON object';
  } catch (error) {
    return (error as SyntaxError).message;
  }
}

/** The calls in the order of the answer; a malformed one with no parameters, since servers refuse arguments that are no JSON. */
function inOrder({ calls }: ModelAnswer, good: readonly ReadCall[]): ReadCall[] {
  const byId = new Map(good.map((it) => [it.id, it]));
  return calls.map(({ id, name }) => byId.get(id) ?? { id, name, input: {} });
}

const toRefusal = ({ id, why }: MalformedCall): CallResult => ({
  id,
  text: `INPUT_INVALID: the arguments of this call can't be read: ${why.slice(0, 300)}. Write them as one JSON object.`,
  success: false,
});
