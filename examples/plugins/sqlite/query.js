import { programs } from './programs.js';

const ROWS_MAX = 1000;
const NOT_FOUND = 127;

/** An isolate opens no files: a program of the machine does, in a sandbox, as a command that the policy judges. */
export async function query({ file, sql }, { tools, console }) {
  for (const { name, command } of programs) {
    const { exitCode, stdout, stderr } = await tools.terminal_execute({ command: command(file, sql) });
    if (exitCode === NOT_FOUND) {
      console.info(`${name} is not installed`);
      continue;
    }
    if (exitCode !== 0) throw new Error(stderr.trim() || `${name} ended with ${exitCode}`);
    const rows = rowsOf(stdout);
    return { rows: rows.slice(0, ROWS_MAX), truncated: rows.length > ROWS_MAX };
  }
  throw new Error(`this machine has none of ${programs.map((it) => it.name).join(', ')}`);
}

/** Of a longer output a caller gets its start and its end. */
function rowsOf(stdout) {
  if (stdout.trim() === '') return [];
  try {
    return JSON.parse(stdout);
  } catch {
    throw new Error('the rows are more than the output of a command holds; ask for fewer, or fewer columns');
  }
}
