/** Answers the questions of a daemon under test as a script says, and keeps what was asked. */
import type { ApprovalAnswer, ApprovalWatch } from '../client/approval-watch.ts';
import type { Client } from '../client/client.ts';
import type { Approval } from '../store/approvals/approval.ts';

/** One answer: a word, or all that `approvals.resolve` takes. */
export type ScriptedAnswer = 'approve' | 'deny' | ApprovalAnswer;

/**
 * The answers: the same to each question, one answer of a list after another, or what a function says of a
 * question. A question that nothing is scripted for is denied.
 */
export type ApprovalScript =
  | ScriptedAnswer
  | readonly ScriptedAnswer[]
  | ((question: Approval) => ScriptedAnswer | Promise<ScriptedAnswer>);

/** A question as a person would have been shown it, and what was answered. */
export interface AskedQuestion {
  readonly question: Approval;
  readonly answer: ApprovalAnswer;
}

const NOTHING_SCRIPTED: ApprovalAnswer = {
  decision: 'deny',
  feedback: 'the test has no answer for this question; give it one by `approvals`',
};

export class ScriptedApprovals implements Disposable {
  /** Questions so far, in the order in which they were asked. */
  readonly asked: AskedQuestion[] = [];
  #script: ApprovalScript;
  /** Answers of a list that were given. */
  #given = 0;
  #watch: ApprovalWatch | undefined;
  #failure: Error | undefined;

  constructor(script: ApprovalScript) {
    this.#script = script;
  }

  /** Answers by another script from now on. */
  answerWith(script: ApprovalScript): void {
    this.#script = script;
    this.#given = 0;
  }

  /** Begins to answer the questions that this operator is asked. */
  async begin(operator: Client): Promise<void> {
    this.#watch = await operator.onApproval(async (question) => {
      const answer = toAnswer(await this.#answerTo(question));
      this.asked.push({ question, answer });
      return answer;
    });
    this.#watch.ended.catch((error: Error) => {
      this.#failure ??= error;
    });
  }

  /** Throws the first error of the script, which its calls only knew as a denial. */
  assertNoFailure(): void {
    if (this.#failure) throw this.#failure;
  }

  [Symbol.dispose](): void {
    this.#watch?.[Symbol.dispose]();
  }

  async #answerTo(question: Approval): Promise<ScriptedAnswer> {
    const script = this.#script;
    if (typeof script === 'function') {
      try {
        return await script(question);
      } catch (error) {
        this.#failure ??= error as Error;
        return { decision: 'deny', feedback: `the test's script failed: ${(error as Error).message}` };
      }
    }
    if (!isList(script)) return script;
    const answer = script[this.#given];
    this.#given += 1;
    return answer ?? NOTHING_SCRIPTED;
  }
}

const isList = (script: ScriptedAnswer | readonly ScriptedAnswer[]): script is readonly ScriptedAnswer[] =>
  Array.isArray(script);

const toAnswer = (answer: ScriptedAnswer): ApprovalAnswer =>
  typeof answer === 'string' ? { decision: answer } : answer;
