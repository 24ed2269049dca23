/** An invalid flag, variable or setting in the config file, in words for the person who wrote it. */
import { UsageError } from '../../base/errors.ts';

export class ConfigError extends UsageError {}
