/** Opens and resizes pseudoterminals. terminal.ts runs programs in them. */
import { createRequire } from 'node:module';
import { ReadStream } from 'node:tty';
import { ToolError } from '../../base/errors.ts';

export interface Size {
  readonly cols: number;
  readonly rows: number;
}

export interface Pty {
  /** The master end. */
  readonly stream: ReadStream;
  /** Descriptor of the slave end, for the program; whoever starts the program closes it. */
  readonly slave: number;
  /** Path of the slave end, as this process sees it. */
  readonly path: string;
  /** Sets the size, which sends SIGWINCH to the foreground program. */
  resize(size: Size): void;
}

/** The part of node-pty's binary that is used: we start the program ourselves, since its `fork` can't pass our descriptors. */
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

/** Opens a pair. Neither end closes on exec: a start of any program while one is open must close it. Throws SANDBOX_UNAVAILABLE. */
export function openPty({ cols, rows }: Size): Pty {
  native ??= load();
  const { open, resize } = native;
  const { master, slave, pty: path } = open(cols, rows);
  return { stream: new ReadStream(master), slave, path, resize: (size) => resize(master, size.cols, size.rows) };
}
