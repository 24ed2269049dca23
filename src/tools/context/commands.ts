/** Commands and programs that tools run, and their results. */
import type { Readable } from 'node:stream';

declare const checked: unique symbol;

/** A command line with its directory and environment, ready to run in a sandbox of its own. */
export interface CheckedCommand {
  readonly [checked]: 'command';
}

export interface CommandResult {
  /** Start and end of the stream; the text itself says what is left out between them. */
  stdout: string;
  stderr: string;
  /** 128 + n if signal n ended the command, as shells report it. */
  exitCode: number;
  signal?: string | undefined;
  durationMs: number;
  /** The report that the request names, up to `commandReportBytes`; empty if there is none. */
  report?: Buffer | undefined;
}

/** A program of the system with its arguments; no shell is involved. */
export interface ProgramRequest {
  readonly program: string;
  readonly args: readonly string[];
  /** Relative to the workspace root. */
  readonly cwd: string;
  /** Variables set beside PATH, HOME, LANG and TERM; chosen by the tool, never by a caller. */
  readonly env: Readonly<Record<string, string>>;
  readonly stdin?: string | undefined;
  /** Whether the program may not connect, whatever the call may. */
  readonly offline?: boolean;
  /** The most bytes of output, both streams together; more ends the program. */
  readonly bytesMax: number;
}

export interface ProgramResult {
  /** The start of the output; all of it unless `cut`. */
  readonly stdout: Buffer;
  readonly stderr: string;
  /** 128 + n if signal n ended the program; undefined if it was ended for too much output. */
  readonly exitCode: number | undefined;
  readonly cut: boolean;
  /** Files that git tracks and that were hidden from the program, relative to the workspace. */
  readonly trackedHidden: readonly string[];
}

/** A command line as policies judge it. */
export interface CommandLine {
  readonly command: string;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** If set, why more may happen than the text says; then no rule may allow the command. */
  readonly unknown?: string;
}

/** A program of a container image, which runs on the image's files in place of the machine's. */
export interface ImageProgram {
  /** Absolute path of the image's files. */
  readonly folder: string;
  readonly volumes: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly argv: readonly string[];
}

/** A command line that a tool asks to run. */
export interface CommandToRun {
  readonly command: string;
  readonly cwd: string;
  readonly env: Record<string, string>;
  readonly stdin?: string | Readable | undefined;
  /** Ends the command before the call ends. */
  readonly until?: AbortSignal;
  /** Whether the command may not connect, whatever the call may. */
  readonly offline?: boolean;
  /** A shell other than the default bash; its positional parameters are `args`. */
  readonly shell?: 'bash' | 'sh' | 'zsh' | 'pwsh';
  readonly args?: readonly string[];
  /** An unpacked image whose program runs, with its arguments, in place of the command line. */
  readonly image?: ImageProgram;
  /**
   * What the command is run for: a file in /tmp that it writes, whose name gets an ending of its own at each run, or `-`
   * for its standard output. With a file, its standard output is shown as standard error. Callers see none of the report
   * while the command runs.
   */
  readonly report?: string;
  /** Called with each piece of the report `-`, in memory that is used again. */
  readonly onReport?: (piece: Buffer) => void;
}
