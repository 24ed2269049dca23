/** `ringfence` of the package `ringfence-client`: the verbs that need nothing of a daemon but its socket, on any system. */
import { addClientVerbs } from '../cli/verbs/client-verbs.ts';
import { programOf, run } from '../cli/verbs/run.ts';
import { addVmVerbs } from '../cli/vm/vm-verbs.ts';

const EXAMPLES = `
  ringfence vm create ~/projects/shop             set up a Linux machine whose agents work in a folder
  ringfence call file_read path=README.md maxLines=5
  ringfence approvals watch`;

const VERBS = [
  addClientVerbs,
  // One a line, since `script/without vm` removes its own.
  addVmVerbs,
];

await run(programOf({ ...process.env }, VERBS, [], EXAMPLES), process.argv);
