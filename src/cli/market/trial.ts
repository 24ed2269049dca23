/** Checks a stranger's plugin or connector in a sandbox without network, which is gone afterwards. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Readable } from 'node:stream';
import { text as textOf } from 'node:stream/consumers';
import { ToolError } from '../../base/errors.ts';
import { defaultLimits as limits } from '../../base/limits.ts';
import { systemPowers } from '../../base/powers.ts';
import { entry, runtime, version } from '../../base/runtime.ts';
import { parseJson } from '../../base/text/json.ts';
import { NO_MASKS } from '../../sandbox/masks.ts';
import { createSandbox } from '../../sandbox/sandbox.ts';
import { MarketError } from '../../services/market/market-error.ts';
import type { MarketKind } from '../../services/market/registry.ts';
import type { PinnedFiles } from '../../services/pinned/pin-folder.ts';

const MEMORY_MB = 512;
const TASKS = 64;

/** The folder of the files, and what the check said of them. */
export interface Trial extends Disposable {
  readonly folder: string;
  readonly sha256: string;
}

/** Writes the files to a folder of their own, and runs `ringfence plugin check` or `connector check` on them. Throws MarketError. */
export async function tryOut(kind: MarketKind, files: PinnedFiles, target: string): Promise<Trial> {
  const base = mkdtempSync(join(tmpdir(), 'ringfence-market-'));
  const dispose = () => rmSync(base, { recursive: true, force: true });
  try {
    const folder = join(base, 'package');
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, path)), { recursive: true });
      writeFileSync(join(folder, path), text, { flag: 'wx', mode: 0o600 });
    }
    const { sha256 } = await check(kind, { folder, target: join(folder, target), base });
    return { folder, sha256, [Symbol.dispose]: dispose };
  } catch (error) {
    dispose();
    throw error;
  }
}

async function check(
  kind: MarketKind,
  { folder, target, base }: { folder: string; target: string; base: string },
): Promise<{ sha256: string }> {
  // A sandbox is proven on a workspace, which the check does not see.
  const [stateDir, workspace] = [join(base, 'state'), join(base, 'workspace')];
  for (const it of [stateDir, workspace]) mkdirSync(it, { mode: 0o700 });
  const { arch, platform } = process;
  const powers = systemPowers();
  const options = { runtime, stateDir, workspaces: [workspace], limits, arch, platform, version };
  await using sandbox = await createSandbox(options, powers);
  const program = [
    process.execPath,
    '--disable-warning=ExperimentalWarning',
    entry('entries/cli'),
    kind,
    'check',
    target,
    '--json',
  ];
  const view = { reads: [folder], masks: NO_MASKS };
  const { child } = start(() =>
    sandbox.startProvider({ program, view, bounds: { memoryMb: MEMORY_MB, tasks: TASKS } }, [
      'ignore',
      'pipe',
      'pipe',
      'pipe',
    ]),
  );
  const timer = powers.after(limits.marketTrialMs, () => child.kill('SIGKILL'));
  const ended = new Promise<number | null>((resolve) => child.once('close', resolve));
  child.on('error', () => {}); // 'close' follows.
  const [out, err] = await Promise.all([readAll(child.stdout), readAll(child.stderr)]);
  const code = await ended;
  timer.cancel();
  if (code !== 0)
    throw new MarketError(`${kind} check refuses the package: ${err.trim() || `it ended with ${code ?? 'a signal'}`}`);
  const { sha256 } = parseJson(out) as { sha256: unknown };
  if (typeof sha256 !== 'string') throw new MarketError(`${kind} check told no hash of the package`);
  return { sha256 };
}

const readAll = (stream: Readable | null): Promise<string> => (stream ? textOf(stream) : Promise.resolve(''));

/** Throws MarketError where this machine can't confine the check: strangers' packages are not checked without. */
function start<Started>(begin: () => Started): Started {
  try {
    return begin();
  } catch (error) {
    if (error instanceof ToolError) throw new MarketError(`the package can't be tried in a sandbox: ${error.message}`);
    throw error;
  }
}
