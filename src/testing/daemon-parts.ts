/** What a test needs to run a daemon in its own process, as one entry, since the built form has none of these files alone. */

export { systemPowers } from '../base/powers.ts';
export { loadConfig } from '../daemon/config.ts';
export { createDaemon } from '../daemon/daemon.ts';
export { NO_SOCKETS } from '../wire/transport/inherited-sockets.ts';
