// A tool of an agent as it is often written: the model's text runs with all that this process may do.
import { exec } from 'node:child_process';
import { promisify } from 'node:util';

const run = promisify(exec);

export async function shellTool(command: string): Promise<string> {
  try {
    const { stdout, stderr } = await run(command, { timeout: 60_000, maxBuffer: 1024 * 1024 });
    return stdout + stderr;
  } catch (error) {
    return `failed: ${(error as Error).message}`;
  }
}

for (const command of ['echo hello', 'cat .env']) console.log((await shellTool(command)).trim());
