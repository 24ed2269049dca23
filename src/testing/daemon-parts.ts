/** What a test needs to run a daemon in its own process, as one entry, since the built form has none of these files alone. */
export { loadConfig } from '../daemon/config.ts';
export { createDaemon } from '../daemon/daemon.ts';
export { systemPowers } from '../powers.ts';
export { NO_SOCKETS } from '../transport/inherited-sockets.ts';
