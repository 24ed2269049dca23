/** `ringfence fleet panel`: serves the panel of a fleet until a signal ends it. */
import { join } from 'node:path';
import { defaultLimits as limits } from '../../../base/limits.ts';
import { systemPowers } from '../../../base/powers.ts';
import type { CliCaller } from '../../connect.ts';
import { openInBrowser, portOf } from '../../monitor/panel.ts';
import { EXIT, harmless, print, printJson, say } from '../../output.ts';
import { type FleetFlags, folderOf } from '../operator.ts';
import { sayLog, untilSignal } from '../running.ts';
import { FleetPanel } from './server.ts';

export interface FleetPanelFlags extends FleetFlags {
  readonly print?: boolean;
  readonly port?: string;
}

export async function fleetPanel({ print: only, port, json, ...flags }: FleetPanelFlags, caller: CliCaller) {
  const folder = folderOf(flags, caller);
  const ended = untilSignal();
  await using panel = await FleetPanel.start({
    folder,
    port: port === undefined ? 0 : portOf(port),
    limits,
    powers: systemPowers(sayLog),
  });
  const opened = panel.newUrl();
  if (json) printJson(opened);
  else print(opened.url);
  const isOpening =
    !only && !json && (await openInBrowser(opened.url, join(folder, 'operator/panel.html'), caller.env));
  const how = isOpening ? 'opening it in your browser' : 'open this address in a browser on this machine';
  say(harmless(`${how}; it works once, for a minute; Ctrl-C ends the panel`));
  await ended;
  return EXIT.OK;
}
