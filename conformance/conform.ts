/**
 * `node conformance/conform.ts -- CMD`: plays a server to a client under test, and tells which rules of docs/protocol.md the client keeps.
 * docs/how-to/conformance.md says what CMD is told and answers.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { CliError, EXIT, harmless, print, printJson } from '../src/cli/output.ts';
import { CALLS, ERRORS } from './call-cases.ts';
import { ClientProgram } from './client-program.ts';
import { FRAMING, LIMITS } from './framing-cases.ts';
import type { Case } from './play.ts';
import { Departure, PlayedServer } from './played-server.ts';
import { RESUME } from './resume-cases.ts';

const CASES: readonly Case[] = [...FRAMING, ...LIMITS, ...CALLS, ...ERRORS, ...RESUME];
/** `only`: cases whose names begin so. `wait`: how long the client may take for each step, in seconds. */
const OPTIONS = {
  json: { type: 'boolean' },
  only: { type: 'string' },
  wait: { type: 'string', default: '10' },
} as const;
/** Bounds of `--wait`, in seconds. */
const WAIT_S = { min: 1, max: 600 };

interface UnderTest {
  readonly command: readonly string[];
  readonly env: NodeJS.ProcessEnv;
  readonly stepMs: number;
}

interface Verdict {
  readonly name: string;
  readonly rule: string;
  readonly passed: boolean;
  /** What the client did instead. */
  readonly problem?: string;
}

/** Plays all cases, one after another. Returns EXIT.OK if the client passed them all. */
async function conform(env: NodeJS.ProcessEnv): Promise<number> {
  const { values: flags, positionals: command } = parseArgs({ options: OPTIONS, allowPositionals: true });
  if (command.length === 0)
    throw new CliError(EXIT.USAGE, 'name the client under test: node conformance/conform.ts -- CMD [ARGUMENT…]');
  const cases = CASES.filter((it) => it.name.startsWith(flags.only ?? ''));
  if (cases.length === 0)
    throw new CliError(
      EXIT.USAGE,
      `no case begins with "${flags.only}"; there are ${CASES.map((it) => it.name).join(', ')}`,
    );
  const waitS = Number(flags.wait);
  if (!(waitS >= WAIT_S.min && waitS <= WAIT_S.max))
    throw new CliError(EXIT.USAGE, `--wait takes ${WAIT_S.min} to ${WAIT_S.max} seconds, and not "${flags.wait}"`);
  const verdicts: Verdict[] = [];
  for (const it of cases) {
    const verdict = await play(it, { command, env, stepMs: waitS * 1000 });
    verdicts.push(verdict);
    if (!flags.json) print(`${verdict.passed ? 'pass' : 'FAIL'}  ${it.name}: ${it.rule}`);
    if (!flags.json && verdict.problem !== undefined) print(`      ${harmless(verdict.problem)}`);
  }
  const failed = verdicts.filter((it) => !it.passed).length;
  if (flags.json) printJson({ passed: verdicts.length - failed, failed, cases: verdicts });
  else print(`${verdicts.length - failed} passed, ${failed} failed`);
  return failed === 0 ? EXIT.OK : EXIT.FAILED;
}

async function play(it: Case, { command, env, stepMs }: UnderTest): Promise<Verdict> {
  const { name, rule } = it;
  const folder = mkdtempSync(join(tmpdir(), 'ringfence-conform-'));
  try {
    const socket = join(folder, 's');
    await using server = await PlayedServer.listen(socket, stepMs);
    await using client = new ClientProgram(command, { ...env, RINGFENCE_SOCKET: socket }, stepMs);
    const played = it.play({ server, client });
    played.catch(() => {}); // Ends later than the program where that was lost.
    await Promise.race([played, client.lost]);
    return { name, rule, passed: true };
  } catch (error) {
    if (!(error instanceof Departure)) throw error;
    return { name, rule, passed: false, problem: error.message };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

try {
  process.exitCode = await conform(process.env);
} catch (error) {
  console.error((error as Error).message);
  process.exitCode = error instanceof CliError ? error.exitCode : EXIT.FAILED;
}
