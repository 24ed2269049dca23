/** Terminals as tools reach them: those of the session whose call it is, and no others. */
import type { CheckedCommand } from './tool.ts';

export interface TerminalSize {
  readonly cols: number;
  readonly rows: number;
}

export interface TerminalScreen extends TerminalSize {
  /** Lines without the blanks at their ends, without control sequences. */
  text: string;
  /** Counted from 1. */
  cursor: { row: number; column: number };
  title?: string;
  /** Whether a program shows a screen of its own, as editors do. */
  fullScreen: boolean;
}

/** One terminal, as it is now. */
export interface TerminalState {
  /** Output as it came, after what was asked for. */
  output: string;
  /** Where the next output begins. */
  seq: number;
  /** Bytes of output that are not kept any more, before `output`. */
  missedBytes?: number;
  exited: boolean;
  /** Why, where its program did not end by itself. */
  endedBy?: string;
  exitCode?: number;
  signal?: string;
  /** Absent where it is lost: something in the output could not be drawn. */
  screen?: TerminalScreen;
  needsInput?: { kind: 'line' | 'password' | 'key' };
}

export interface TerminalEntry extends TerminalSize {
  sessionId: string;
  command: string;
  exited: boolean;
  ageMs: number;
  seq: number;
}

export interface TerminalWait {
  /** Place in the output after which it is wanted; all that is kept when 0. */
  readonly afterSeq: number;
  readonly waitMs: number;
}

/** All throw NOT_FOUND for an id that is none of this session's. */
export interface Terminals {
  /** Starts a program in a new one, gives its id. Throws QUEUE_FULL where there are too many, SANDBOX_UNAVAILABLE. */
  open(command: CheckedCommand, about: TerminalSize & { readonly command: string }): Promise<string>;
  /** Until its program waits for input, or ends, or `waitMs` are over; with `output`, until there is some. */
  state(id: string, wait: TerminalWait & { readonly until: 'output' | 'input' }): Promise<TerminalState>;
  /** Gives its program input; the place in the output before that. Throws CONFLICT. */
  write(id: string, data: string): Promise<number>;
  /** Throws CONFLICT. */
  resize(id: string, size: TerminalSize): Promise<void>;
  /** Signals the program in the foreground; the place in the output before that. Throws CONFLICT. */
  signal(id: string, name: string): Promise<number>;
  /** Ends all that runs in it, and forgets it. */
  close(id: string): Promise<void>;
  list(): TerminalEntry[];
}
