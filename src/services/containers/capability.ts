/** Programs of container images (`docker_run`), on the image's files, in the sandbox of commands. */
import type * as z from 'zod';
import { defineCapability } from '../capability.ts';
import { imagesFolder, makeImagesFolder, tidyImages } from './images.ts';
import { containerRunner } from './run-container.ts';

/** Variables by which an engine finds its images, its settings and its own engine. */
const VARIABLES = [
  ...['PATH', 'HOME', 'USER', 'XDG_RUNTIME_DIR', 'XDG_CONFIG_HOME', 'XDG_DATA_HOME', 'DBUS_SESSION_BUS_ADDRESS'],
  ...[
    'CONTAINERS_CONF',
    'CONTAINERS_STORAGE_CONF',
    'REGISTRY_AUTH_FILE',
    'DOCKER_HOST',
    'DOCKER_CONFIG',
    'DOCKER_CONTEXT',
  ],
];

export const containers = defineCapability({
  keys: {} as Record<string, z.ZodType>,
  settings: (_, { env }) =>
    Object.fromEntries(VARIABLES.flatMap((name) => (env[name] === undefined ? [] : [[name, env[name]]]))),
  forCommands: (stateDir) => {
    const folder = imagesFolder(stateDir);
    return { seen: [], ofHosts: [folder], make: () => makeImagesFolder(stateDir) };
  },
  start(env: Readonly<Record<string, string>>, daemon) {
    tidyImages(daemon.stateDir, daemon.powers);
    return { runners: { containers: containerRunner({ ...daemon, env }) } };
  },
});
