/** The terminals, and the commands in the background, that a tool can reach: only those of the call's session. */
import * as z from 'zod';
import type { CheckedCommand } from './context/commands.ts';

export interface TerminalSize {
  readonly cols: number;
  readonly rows: number;
}

export interface TerminalScreen extends TerminalSize {
  /** Lines without trailing blanks and without control sequences. */
  text: string;
  /** Counted from 1. */
  cursor: { row: number; column: number };
  title?: string;
  /** Whether a program uses the alternate screen, as editors do. */
  fullScreen: boolean;
}

export interface TerminalState {
  /** Raw output after the position that was asked for. */
  output: string;
  /** Position in the output where the next read begins. */
  seq: number;
  /** Bytes of output before `output` that are no longer kept. */
  missedBytes?: number | undefined;
  exited: boolean;
  /** Why the program ended, if not by itself. */
  endedBy?: string;
  exitCode?: number;
  signal?: string | undefined;
  /** Absent if the screen is unknown because some output could not be drawn. */
  screen?: TerminalScreen | undefined;
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
  /** Position in the output after which output is wanted; 0 for all that is kept. */
  readonly afterSeq: number;
  readonly waitMs: number;
}

/** Every method with an id throws NOT_FOUND if the session has no such terminal. */
export interface Terminals {
  /**
   * Starts a program in a new terminal; gives the terminal's id. Throws QUEUE_FULL if there are too many terminals,
   * SANDBOX_UNAVAILABLE.
   */
  open(command: CheckedCommand, about: TerminalSize & { readonly command: string }): Promise<string>;
  /** Resolves when the program waits for input or ends, when `waitMs` are over, or, with `output`, as soon as there is output. */
  state(id: string, wait: TerminalWait & { readonly until: 'output' | 'input' }): Promise<TerminalState>;
  /**
   * Sends input to the program; gives the position in the output before it. Throws CONFLICT if the program takes no
   * input or has ended.
   */
  write(id: string, data: string): Promise<number>;
  /** Throws CONFLICT if the program has ended. */
  resize(id: string, size: TerminalSize): Promise<void>;
  /** Signals the foreground program; gives the position in the output before it. Throws CONFLICT if there is none. */
  signal(id: string, name: string): Promise<number>;
  /** Ends everything that runs in the terminal, and removes it. */
  close(id: string): Promise<void>;
  list(): TerminalEntry[];
}

const ports = z.array(z.int()).optional().describe('TCP ports on which it listens, in a network of its own.');

/** A command in the background, as it is now; standard output and standard error in the order in which they were written. */
export const backgroundState = z.strictObject({
  output: z.string().describe('Invalid UTF-8 becomes U+FFFD.'),
  seq: z.int().describe('Position after this output; pass it as afterSeq of the next read.'),
  missedBytes: z.int().optional().describe('Earlier output that is no longer kept.'),
  exited: z.boolean(),
  endedBy: z.string().optional().describe('Why the command was ended, if it did not end by itself.'),
  exitCode: z.int().optional(),
  signal: z.string().optional(),
  ports,
});
export type BackgroundState = z.output<typeof backgroundState>;

export const backgroundEntry = z.strictObject({
  handle: z.string(),
  command: z.string(),
  exited: z.boolean(),
  ageMs: z.int(),
  seq: z.int(),
  ports,
});
export type BackgroundEntry = z.output<typeof backgroundEntry>;

/** Every method with an id throws NOT_FOUND if the session has no such command. */
export interface BackgroundCommands {
  /** Starts a command; gives its handle once it runs. Throws QUEUE_FULL if there are too many, SANDBOX_UNAVAILABLE. */
  start(command: CheckedCommand, about: { readonly command: string }): Promise<string>;
  /** Resolves when there is output after `afterSeq`, the command has ended, or `waitMs` are over. */
  output(handle: string, wait: { readonly afterSeq: number; readonly waitMs: number }): Promise<BackgroundState>;
  /** Resolves when the command has ended, or `waitMs` are over. */
  ended(handle: string, waitMs: number): Promise<Pick<BackgroundState, 'exited' | 'exitCode' | 'signal'>>;
  /** Signals the command's process group. Throws CONFLICT if it has ended. */
  signal(handle: string, name: string): Promise<void>;
  /** Ends everything that the command started; its output stays readable. */
  stop(handle: string): Promise<void>;
}

/** The programs that a host keeps for a session between its calls. */
export interface KeptPrograms {
  readonly terminals: Terminals;
  readonly background: BackgroundCommands;
}
