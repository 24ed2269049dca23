/** `ringfence`, the command-line client. Each verb is a file in cli/; cli/verbs/ lists them. */
import { withShellApart } from '../cli/shell/arguments.ts';
import { createProgram } from '../cli/verbs/program.ts';
import { run } from '../cli/verbs/run.ts';

await run(createProgram({ ...process.env }), withShellApart(process.argv));
