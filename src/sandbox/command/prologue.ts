/**
 * Builds bash's arguments for a command: bash itself sets the command's limits as rlimits before it reads anything of the caller.
 * A `prlimit` before each bubblewrap would do the same for 0.8 ms more.
 */
import type { CommandBounds } from '../../base/limits.ts';

export interface PrologueRequest {
  readonly command: string;
  /** A program and its arguments, run instead of the command line. */
  readonly argv?: readonly string[];
  /** The caller's variables. */
  readonly env: Readonly<Record<string, string>>;
  readonly bounds: CommandBounds;
  readonly rlimits: Rlimits;
  /** Gate at which bash waits, before it reads anything of the caller, until its sandbox has been checked. */
  readonly gate?: Gate | undefined;
}

/** Descriptors of a bash: it reports on `builtFd` that it has started, and continues after a line on `fd`. */
export interface Gate {
  readonly fd: number;
  readonly builtFd: number;
}

/** The bounds of a command as limits of each of its processes. */
export interface Rlimits {
  /** Open files of one process. */
  readonly openFiles: number;
  /** Address space of one process, in MiB; absent if the kernel counts real memory use. */
  readonly addressMib?: number;
  /** Threads for each permitted process; absent if the kernel would also count those of other commands. */
  readonly threadsPerProcess?: number;
}

/**
 * Variables whose assigned value bash evaluates, so that a value could be a command. In the environment of
 * bash they are harmless; all other variables there could make bash, or its loader, run something before the limits are set.
 */
export const COMPUTED = ['HISTCMD', 'OPTIND', 'RANDOM', 'SRANDOM', 'SECONDS', 'LINENO', 'EPOCHSECONDS'] as const;

/** Arguments of bash. The command line is one of them, unchanged, so that lines and errors keep their numbers. */
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

/** If the line's other end is closed first, nothing runs. The word goes to `_`, which the next command sets anew. */
const waitAt = (gate: Gate | undefined): string[] =>
  gate ? [`${sayBuilt(gate)};read -r -u ${gate.fd} _||exit 1;exec ${gate.fd}<&-`] : [];

const sayBuilt = ({ builtFd }: Gate): string => `echo >&${builtFd};exec ${builtFd}>&-`;

/** Nested as deep as a late command, since bash's traces show the depth. */
const RUN = 'eval "set --;$1"';

/**
 * Keeps a lower inherited limit, or a variable that can't be set, without a message. Closes stderr, since the host
 * would notice an open of /dev/null.
 */
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

/** Hard limits, so that nothing can raise them; the CPU limit is a fallback for a late watchdog. */
function ulimits({ bounds, rlimits }: Pick<PrologueRequest, 'bounds' | 'rlimits'>): string[] {
  const { cpuMs, processes, fileMb } = bounds;
  const cpuSeconds = Math.ceil(cpuMs / 1000) + 1;
  const { openFiles, threadsPerProcess, addressMib } = rlimits;
  return [
    `ulimit -f ${fileMb * 1024}`,
    `ulimit -n ${openFiles}`,
    `ulimit -S -t ${cpuSeconds}`,
    `ulimit -H -t ${cpuSeconds + 1}`,
    ...(addressMib === undefined ? [] : [`ulimit -v ${addressMib * 1024}`]),
    ...(threadsPerProcess === undefined ? [] : [`ulimit -u ${processes * threadsPerProcess + 16}`]),
  ];
}

/**
 * Arguments of a bash that sets its limits, reports on `builtFd` that it has started, and waits on `fd` for its command: the words
 * of `toWords`. If `fd` ends before all have come, nothing runs. The command can tell the wait from `$BASH_EXECUTION_STRING`, from
 * `$SECONDS`, which was set, and from its shell's start time and arguments.
 */
export const toWaitingBashArgs = (gate: Gate, limits: Pick<PrologueRequest, 'bounds' | 'rlimits'>): string[] => {
  const read = `${sayBuilt(gate)};mapfile -d "" -t -u ${gate.fd};exec ${gate.fd}<&-`;
  const check = '[ "${MAPFILE[0]}" = "${#MAPFILE[@]}" ]&&[ "${MAPFILE[-1]}" = . ]||exit 1';
  const take = 'set -- "${MAPFILE[@]:2:${#MAPFILE[@]}-3}";eval "unset MAPFILE;SECONDS=0;${MAPFILE[1]}"';
  return ['--norc', '--noprofile', '-c', `${silent(ulimits(limits))};${read};${check};${take};${RUN}`, '/bin/bash'];
};

/** Limit of all words: bash reads them byte by byte. */
const WORDS_BYTES_MAX = 8 * 1024;
const WORDS_MAX = 100;

/** The words with which the bash of `toWaitingBashArgs` does what `toBashArgs` would; undefined if they are too many. */
export function toWords(request: PrologueRequest): Buffer | undefined {
  const { exports, run, words } = partsOf(request);
  // A program replaces bash before bash runs a command line.
  const first = [...(exports.length === 0 ? [] : [silent(exports)]), ...(run === RUN ? [] : [run, 'exit'])].join(';');
  // The last word is only an end mark: bash accepts a truncated word as a word.
  const bytes = Buffer.from([`${words.length + 3}`, first, ...words, '.'].map((it) => `${it}\0`).join(''));
  return words.length > WORDS_MAX || bytes.length > WORDS_BYTES_MAX ? undefined : bytes;
}
