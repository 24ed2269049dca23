/** A job in a host: what the host may send about it before its result, and how it ends. */
import type { Limits } from '../base/limits.ts';
import type { Timer } from '../base/powers.ts';
import { FLOOD_PIPE_BYTES } from '../sandbox/command/output-pipe.ts';
import type { ChildAnswer, ChildAsk, HostOutput, JobProgress, JobResult, LogLine } from './job.ts';
import type { OverTime } from './thread-clocks.ts';

export interface RunOptions {
  readonly signal: AbortSignal;
  /** Whether the job only waits for what goes on anyway: then it does not keep its host, and counts as none. */
  readonly isWait?: boolean;
  /**
   * Receives output; copies what it keeps of `data`, since the memory is reused. A returned promise delays the
   * acknowledgement to the host until it settles; it never rejects.
   */
  readonly onOutput?: (stream: 'stdout' | 'stderr', data: Uint8Array) => Promise<void> | undefined;
  /** Receives the progress that the host reports. */
  readonly onProgress?: (progress: Omit<JobProgress, 'id'>) => void;
  /** Answers a call that a program makes; never rejects. */
  readonly onAsk?: (ask: ChildAsk) => Promise<Omit<ChildAnswer, 'id' | 'call'>>;
  /** Receives each line that a program writes to its console. */
  readonly onLog?: (line: LogLine) => void;
}

/** The end of a job: a result, or the death of its host. */
export type JobEnd = { readonly result: JobResult } | { readonly crashed: true };

/** How many windows of output a host may be ahead, and bytes that a command's two pipes may hold when it ends. */
const WINDOWS_AHEAD_MAX = 4;
const PIPES_BYTES_MAX = 2 * FLOOD_PIPE_BYTES;

export class RunningJob {
  readonly options: RunOptions;
  readonly end: (end: JobEnd) => void;
  /** Set if the job used more CPU time than it may. */
  over: OverTime | undefined;
  /** Ends the thread that does not acknowledge an abort of this job. */
  deaf: Timer | undefined;
  /** End the job's thread and its host, if the job does not end. */
  timers: readonly Timer[] = [];
  readonly #limits: Limits;
  /** Bytes of output received but not processed, and bytes processed but not acknowledged to the host. */
  #untaken = 0;
  #untold = 0;
  /** Calls that the program has made, and those in progress. */
  #asked = 0;
  #asking = 0;
  /** Console lines that the program has written, and their characters. */
  #logs = 0;
  #logChars = 0;

  constructor(options: RunOptions, limits: Limits, end: (end: JobEnd) => void) {
    this.options = options;
    this.end = end;
    this.#limits = limits;
  }

  stopTimers(): void {
    for (const it of [this.deaf, ...this.timers]) it?.cancel();
  }

  /**
   * Takes output, and calls `acknowledge` with bytes that the host may send more. Throws if the host sends more than
   * its window: it would fill the gateway's memory.
   */
  takeOutput({ stream, data }: HostOutput, acknowledge: (bytes: number) => void): void {
    this.#untaken += data.length;
    if (this.#untaken > WINDOWS_AHEAD_MAX * this.#limits.outputWindowBytes + PIPES_BYTES_MAX)
      throw new Error('more output than it may send ahead');
    const { length } = data;
    const consumed = this.options.onOutput?.(stream, data);
    if (consumed) void consumed.then(() => this.#taken(length, acknowledge));
    else this.#taken(length, acknowledge);
  }

  /** Takes a program's call. Throws if there are more than a program may make: the host was compromised. */
  takeAsk(ask: ChildAsk, answered: (answer: Omit<ChildAnswer, 'id' | 'call'>) => void): void {
    const { codeCallsMax, codeConcurrencyMax } = this.#limits;
    const { onAsk } = this.options;
    if (!onAsk || this.#asked >= codeCallsMax || this.#asking >= codeConcurrencyMax)
      throw new Error('more calls than a program may make');
    this.#asked += 1;
    this.#asking += 1;
    void onAsk(ask).then((answer) => {
      this.#asking -= 1;
      answered(answer);
    });
  }

  /** Takes a console line. Throws if there is more than a program may write: the host was compromised. */
  takeLog({ level, text }: LogLine): void {
    const { codeLogsMax, codeLogChars } = this.#limits;
    this.#logs += 1;
    this.#logChars += text.length;
    if (this.#logs > codeLogsMax || this.#logChars > codeLogChars) throw new Error('more than a program may log');
    this.options.onLog?.({ level, text });
  }

  #taken(bytes: number, acknowledge: (bytes: number) => void): void {
    this.#untaken -= bytes;
    this.#untold += bytes;
    // Batches acknowledgements: a host that waits has sent four times as much.
    if (this.#untold < this.#limits.outputWindowBytes / 4) return;
    acknowledge(this.#untold);
    this.#untold = 0;
  }
}
