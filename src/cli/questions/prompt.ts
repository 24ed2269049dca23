/** Shows questions at a person's terminal, one at a time, and reads the answers. */
import { createInterface, type Interface } from 'node:readline/promises';
import type { Readable, Writable } from 'node:stream';
import { pause, systemPowers } from '../../base/powers.ts';
import { type Approval, type RememberScope, rememberToolFor } from '../../store/approvals/approval.ts';
import { choicesOf } from '../../store/approvals/question-words.ts';
import { EXIT } from '../output.ts';
import { notifyDesktop } from './notify.ts';
import { explainQuestion, showQuestion } from './question.ts';

/** The person's terminal. */
export interface Terminal {
  readonly input: Readable;
  readonly output: Writable & { readonly columns?: number };
  readonly isTTY: boolean;
  /** Whether NO_COLOR is set. */
  readonly noColor?: boolean;
  /** Whether questions are only printed as JSON, without asking. */
  readonly json?: boolean;
  /** Whether the desktop shows a notice of each question. */
  readonly notify?: boolean;
  /** Milliseconds in which a new question takes no answer: what is typed then was meant for what stood there before. */
  readonly armingMs?: number;
}

/** Params of `approvals.resolve` without the id. */
export interface PersonsAnswer {
  readonly decision: 'approve' | 'deny';
  readonly feedback?: string;
  readonly remember?: RememberScope | undefined;
}

const ARMING_MS = 1_000;

/** Asks the person at this terminal about one call; undefined when they leave, or when `signal` is aborted. */
export async function askInline(
  approval: Approval,
  io: Terminal,
  signal?: AbortSignal,
): Promise<PersonsAnswer | undefined> {
  using prompt = new Prompt(io);
  // Awaited here, since the prompt is closed on return.
  return await prompt.ask(approval, signal ?? new AbortController().signal);
}

/** One line editor for all questions; input typed while no question takes an answer is discarded. */
export class Prompt implements Disposable {
  readonly #io: Terminal;
  readonly #lines: Interface;
  readonly #aborted = new AbortController();
  /** Whether the cursor is behind a prompt. */
  #isPrompting = false;
  /** Approvals answered here, whose notifications need not be shown. */
  readonly answered = new Set<string>();
  exitCode: number = EXIT.OK;

  constructor(io: Terminal, signal?: AbortSignal) {
    this.#io = io;
    this.#lines = createInterface({
      input: io.input,
      output: io.output,
      terminal: io.isTTY,
      historySize: 0,
      prompt: '',
    });
    this.#lines.on('SIGINT', () => this.leave(EXIT.INTERRUPTED));
    this.#lines.on('close', () => this.leave(EXIT.OK));
    signal?.addEventListener('abort', () => this.leave(EXIT.INTERRUPTED));
  }

  get left(): AbortSignal {
    return this.#aborted.signal;
  }

  /** Ends all asking. The first exit code counts. */
  leave(exitCode: number): void {
    if (this.#aborted.signal.aborted) return;
    this.exitCode = exitCode;
    this.#aborted.abort();
  }

  say(text: string): void {
    this.#io.output.write(`${this.#isPrompting ? '\n' : ''}${text}\n`);
  }

  /** Rings and shows the question, takes no answer for a second, then reads until there is one. */
  async ask(approval: Approval, gone: AbortSignal): Promise<PersonsAnswer | undefined> {
    const powers = systemPowers();
    const { isTTY, noColor, output, armingMs = ARMING_MS } = this.#io;
    const color = isTTY && !noColor;
    if (isTTY) output.write('\x07');
    if (this.#io.notify) notifyDesktop(approval);
    this.say(showQuestion(approval, { color, columns: output.columns, nowMs: powers.now() }));
    const signal = AbortSignal.any([gone, this.#aborted.signal]);
    await Promise.race([pause(armingMs, powers), ended(signal)]);
    while (!signal.aborted) {
      // Clears the input line: text typed before this question took answers must not answer it.
      if (isTTY) for (const name of ['e', 'u']) this.#lines.write(null, { ctrl: true, name });
      this.#isPrompting = true;
      const line = await this.#lines.question('  > ', { signal }).catch(() => undefined); // Aborted.
      this.#isPrompting = false;
      if (line === undefined || signal.aborted) continue;
      if (/^\s*e(?:xplain)?\s*$/.test(line)) {
        this.say(explainQuestion(approval, { color }));
        continue;
      }
      const answer = parseAnswer(line, approval);
      if (answer) {
        this.answered.add(approval.approvalId);
        return answer;
      }
      const keys = choicesOf(approval).map(({ key }) => key);
      this.say(`  Type ${[...keys, 'e'].join(', ')}; after n or N you can add a reason.`);
    }
    return undefined;
  }

  [Symbol.dispose](): void {
    this.#lines.close();
  }
}

const ended = (signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });

/** Words typed out for keys; a single `N` is the no for the session. */
const WORDS: Readonly<Record<string, string>> = { yes: 'y', no: 'n', na: 'N', ya: 's', yp: 'p' };
const FEEDBACK_CHARS_MAX = 4096;

/** Parses a key or its word, after a no with a reason; undefined for anything else and for answers that are not offered. */
function parseAnswer(line: string, approval: Approval): PersonsAnswer | undefined {
  const [, word = '', feedback = ''] = /^\s*(\S+)\s*(.*)$/s.exec(line) ?? [];
  const key = word === 'N' ? word : (WORDS[word.toLowerCase()] ?? word.toLowerCase());
  const said = feedback.trim().slice(0, FEEDBACK_CHARS_MAX);
  const forTool = key === 'yt' ? rememberToolFor(approval) : undefined;
  const choice = forTool
    ? { decision: 'approve' as const, remember: forTool }
    : choicesOf(approval).find((it) => it.key === key);
  // `y but only …` does not count as yes.
  if (!choice || (choice.decision === 'approve' && said !== '')) return undefined;
  const { decision, remember } = choice;
  return { decision, ...(said !== '' && { feedback: said }), remember };
}
