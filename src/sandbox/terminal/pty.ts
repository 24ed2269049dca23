/** Pseudoterminals: the pair that the kernel gives, and its size. What runs in one is terminal.ts's. */
import { createRequire } from 'node:module';
import { ReadStream } from 'node:tty';
import { ToolError } from '../../errors.ts';

export interface Size {
  readonly cols: number;
  readonly rows: number;
}

export interface Pty {
  /** Our end. */
  readonly stream: ReadStream;
  /** Descriptor of the other end; for the program, and closed by whoever starts that. */
  readonly slave: number;
  /** Path of the other end, as this process sees it. */
  readonly path: string;
  /** Tells the foreground program by SIGWINCH. */
  resize(size: Size): void;
}

/** The part of node-pty's binary that is used: it leaves starting the program to us, which its `fork` does without our descriptors. */
interface Native {
  open(cols: number, rows: number): { readonly master: number; readonly slave: number; readonly pty: string };
  resize(fd: number, cols: number, rows: number): void;
}

let native: Native | undefined;

function load(): Native {
  const require = createRequire(import.meta.url);
  try {
    const { requireBinary } = require('@lydell/node-pty/requireBinary.js') as { requireBinary(file: string): Native };
    return requireBinary('pty.node');
  } catch (cause) {
    throw new ToolError('SANDBOX_UNAVAILABLE', 'terminals need @lydell/node-pty, which can not be loaded here', {
      suggestion: 'Install Ringfence with its optional dependencies (not --omit=optional).',
      cause,
    });
  }
}

/** Neither end is closed on exec: whoever starts a program while one is open sees to that. Throws SANDBOX_UNAVAILABLE. */
export function openPty({ cols, rows }: Size): Pty {
  native ??= load();
  const { open, resize } = native;
  const { master, slave, pty: path } = open(cols, rows);
  return { stream: new ReadStream(master), slave, path, resize: (size) => resize(master, size.cols, size.rows) };
}
