/** Loaded into each worker of the project *pure*: a test that starts a process fails there, and belongs in test/programs. */
import childProcess from 'node:child_process';
import { syncBuiltinESMExports } from 'node:module';

const refuse = (): never => {
  throw new Error('a pure test starts no process: move its file to test/programs (test/lanes.ts)');
};

Object.assign(childProcess.ChildProcess.prototype, { spawn: refuse });
for (const name of ['spawnSync', 'execFileSync', 'execSync'] as const) childProcess[name] = refuse as never;
syncBuiltinESMExports();
