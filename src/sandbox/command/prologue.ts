/**
 * bash's arguments for a command: its limits as rlimits, set by bash itself before it looks at anything of the caller's.
 * A `prlimit` before each bubblewrap would do the same for 0.8 ms more.
 */
import type { CommandBounds } from '../../limits.ts';

export interface PrologueRequest {
  readonly command: string;
  /** A program and its arguments, run in place of the command line. */
  readonly argv?: readonly string[];
  /** The caller's variables. */
  readonly env: Readonly<Record<string, string>>;
  readonly bounds: CommandBounds;
  readonly rlimits: Rlimits;
  /** Where it waits, before it looks at anything of the caller's, until its sandbox was looked at. */
  readonly gate?: Gate;
}

/** Descriptors of a bash: it says on `builtFd` that it is there, and goes on when a line comes on `fd`. */
export interface Gate {
  readonly fd: number;
  readonly builtFd: number;
}

/** What the bounds of a command are as limits of each of its processes. */
export interface Rlimits {
  /** Address space of one process, in MiB; absent where the kernel counts the memory that it really uses. */
  readonly addressMib?: number;
  /** Threads for each process that it may have; absent where the kernel counts those of other commands, too. */
  readonly threadsPerProcess?: number;
}

/**
 * Variables that bash computes with when they are assigned, so that a value could be a command. In the environment of
 * bash they are harmless; all others could make it, or its loader, run something before the limits are set.
 */
export const COMPUTED = ['HISTCMD', 'OPTIND', 'RANDOM', 'SRANDOM', 'SECONDS', 'LINENO', 'EPOCHSECONDS'] as const;

/** Arguments of bash. The command line is one of them, as it is: lines and errors keep their numbers. */
export function toBashArgs(request: PrologueRequest): string[] {
  const { exports, run, words } = partsOf(request);
  return [
    '--norc',
    '--noprofile',
    '-c',
    [...waitAt(request.gate), silent([...ulimits(request), ...exports]), run].join(';'),
    '/bin/bash',
    ...words,
  ];
}

/** Where its end of the line is closed first, nothing runs. The word goes to `_`, which the next command sets anew. */
const waitAt = (gate: Gate | undefined): string[] =>
  gate ? [`${sayBuilt(gate)};read -r -u ${gate.fd} _||exit 1;exec ${gate.fd}<&-`] : [];

const sayBuilt = ({ builtFd }: Gate): string => `echo >&${builtFd};exec ${builtFd}>&-`;

/** As deep as that of a command that comes late, since its traces show how deep it is. */
const RUN = 'eval "set --;$1"';

/** An inherited limit that is lower stays, without a word about it; so does a variable that can't be set. Closed, since an open of /dev/null is one that the host is told of. */
const silent = (commands: readonly string[]): string => `{ ${commands.join(';')}; } 2>&-`;

function partsOf(request: PrologueRequest): { exports: readonly string[]; run: string; words: readonly string[] } {
  const exported = Object.entries(request.env).filter(([name]) => !COMPUTED.some((it) => it === name));
  const { command, argv = [] } = request;
  const variables = exported.map(([name, value]) => `${name}=${value}`);
  return {
    exports: exported.length === 0 ? [] : [`export -- "\${@:2:${exported.length}}"`],
    run: argv.length === 0 ? RUN : `exec -- "\${@:${exported.length + 2}}"`,
    words: [command, ...variables, ...argv],
  };
}

/** Hard limits, so that nothing can raise them; the one on CPU time is for a watchdog that comes late. */
function ulimits({ bounds, rlimits }: Pick<PrologueRequest, 'bounds' | 'rlimits'>): string[] {
  const { cpuMs, processes, fileMb } = bounds;
  const cpuSeconds = Math.ceil(cpuMs / 1000) + 1;
  const { threadsPerProcess, addressMib } = rlimits;
  return [
    `ulimit -f ${fileMb * 1024}`,
    'ulimit -S -n hard',
    `ulimit -S -t ${cpuSeconds}`,
    `ulimit -H -t ${cpuSeconds + 1}`,
    ...(addressMib === undefined ? [] : [`ulimit -v ${addressMib * 1024}`]),
    ...(threadsPerProcess === undefined ? [] : [`ulimit -u ${processes * threadsPerProcess + 16}`]),
  ];
}

/**
 * Arguments of a bash that sets its limits and waits for its command: words by `toWords`, on descriptor `fd`, after it has said on `builtFd` that it is there.
 * Where that ends before all have come, nothing runs. Of the wait the command sees `$BASH_EXECUTION_STRING`, that `$SECONDS` was set, and when
 * and with what its shell was started.
 */
export const toWaitingBashArgs = (gate: Gate, limits: Pick<PrologueRequest, 'bounds' | 'rlimits'>): string[] => {
  const read = `${sayBuilt(gate)};mapfile -d "" -t -u ${gate.fd};exec ${gate.fd}<&-`;
  const check = '[ "${MAPFILE[0]}" = "${#MAPFILE[@]}" ]&&[ "${MAPFILE[-1]}" = . ]||exit 1';
  const take = 'set -- "${MAPFILE[@]:2:${#MAPFILE[@]}-3}";eval "unset MAPFILE;SECONDS=0;${MAPFILE[1]}"';
  return ['--norc', '--noprofile', '-c', `${silent(ulimits(limits))};${read};${check};${take};${RUN}`, '/bin/bash'];
};

/** bash reads them byte by byte. */
const WORDS_BYTES_MAX = 8 * 1024;
const WORDS_MAX = 100;

/** What the bash of `toWaitingBashArgs` needs to do what bash does with those of `toBashArgs`; undefined where that is too much. */
export function toWords(request: PrologueRequest): Buffer | undefined {
  const { exports, run, words } = partsOf(request);
  // A program takes the place of bash before that runs a command line.
  const first = [...(exports.length === 0 ? [] : [silent(exports)]), ...(run === RUN ? [] : [run, 'exit'])].join(';');
  // The last one is no part of it: a word that is cut off is one to bash.
  const bytes = Buffer.from([`${words.length + 3}`, first, ...words, '.'].map((it) => `${it}\0`).join(''));
  return words.length > WORDS_MAX || bytes.length > WORDS_BYTES_MAX ? undefined : bytes;
}
