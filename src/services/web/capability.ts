/** HTTP requests, which the egress process makes, and pages, which a browser in a sandbox opens. */

import { browserProgram } from '../../base/runtime.ts';
import { capabilityOf } from '../capability.ts';
import { Browsers } from './browser/browsers.ts';
import { webRunner } from './runner.ts';

export const web = capabilityOf((daemon) => {
  const { parts, powers } = daemon;
  const browsers = parts.use(new Browsers({ ...daemon, program: browserProgram }, powers));
  return { runners: { web: webRunner({ ...daemon, browsers }) }, hosts: () => browsers.status() };
});
