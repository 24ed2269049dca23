/** Programs of callers (`code_run`) and of plugins, in isolate hosts with no authority but tool calls. */

import { compartmentProgram, isolateProgram } from '../../base/runtime.ts';
import { Isolates } from '../../hosts/isolates.ts';
import { capabilityOf } from '../capability.ts';
import { programRunner } from './run-program.ts';

export const programs = capabilityOf((daemon) => {
  const { parts, powers } = daemon;
  const isolates = parts.use(new Isolates({ ...daemon, program: isolateProgram }, powers));
  const compartments = parts.use(new Isolates({ ...daemon, program: compartmentProgram }, powers));
  return {
    runners: { isolates: programRunner({ ...daemon, isolates, compartments }) },
    hosts: () => [isolates, compartments].flatMap((it) => it.status()),
    endSession(id) {
      for (const it of [isolates, compartments]) it.endSession(id);
    },
  };
});
