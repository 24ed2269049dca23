/** Programs of ours that read the sources of strangers: bounded in memory and output, and ended with the call that runs them. */
import { onAbort, type Powers } from '../../src/base/powers.ts';
import { entering } from '../../src/sandbox/launch.ts';

export interface BoundedProgram {
  readonly program: string;
  readonly args: readonly string[];
  readonly memoryBytes: number;
}

export interface BoundedRun extends BoundedProgram {
  readonly cwd: string;
  /** Without PATH: it has no programs to start. */
  readonly env: Readonly<Record<string, string>>;
  /** Standard input; empty if absent. */
  readonly input?: string | undefined;
  /** The most bytes of its output. */
  readonly bytesMax: number;
}

export interface BoundedResult {
  readonly stdout: string;
  readonly stderr: string;
  /** Null if a signal ended it. */
  readonly exitCode: number | null;
  readonly killedBy: string | null;
}

/** Program and arguments, so that the child dies with the thread that started it and can't fill the memory. */
export const boundedLaunch = ({ program, args, memoryBytes }: BoundedProgram): [string, ...string[]] => [
  ...entering({ dataBytes: memoryBytes }),
  program,
  ...args,
];

/** Runs a program to its end. Throws what `errors` gives, and the signal's reason. */
export async function runBounded(
  { cwd, env, input = '', bytesMax, ...launch }: BoundedRun,
  { powers, signal }: { readonly powers: Powers; readonly signal: AbortSignal },
  errors: { readonly tooMuch: (bytesMax: number) => Error; readonly crashed: (why: string) => Error },
): Promise<BoundedResult> {
  signal.throwIfAborted();
  const [program, ...args] = boundedLaunch(launch);
  const child = powers.spawn(program, args, { stdio: 'pipe', cwd, env: { ...env } });
  const { promise, resolve, reject } = Promise.withResolvers<BoundedResult>();
  const pieces = { stdout: [] as Buffer[], stderr: [] as Buffer[] };
  let bytes = 0;
  const end = (error: unknown) => {
    child.kill('SIGKILL');
    reject(error);
  };
  using _ = onAbort(signal, () => end(signal.reason));
  for (const name of ['stdout', 'stderr'] as const)
    child[name]?.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= bytesMax) pieces[name].push(chunk);
      else end(errors.tooMuch(bytesMax));
    });
  child.stdin?.on('error', () => {}).end(input);
  child.once('error', (error) => end(errors.crashed(error.message)));
  child.once('close', (exitCode, killedBy) => {
    const [stdout = '', stderr = ''] = [pieces.stdout, pieces.stderr].map((it) => Buffer.concat(it).toString('utf8'));
    resolve({ stdout, stderr, exitCode, killedBy });
  });
  return await promise;
}
