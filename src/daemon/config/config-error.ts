/** An invalid flag, variable or setting in the config file, in words for the person who wrote it. */
export class ConfigError extends Error {}
