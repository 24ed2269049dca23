/**
 * Whether a model reads the whole result or only the part that it mostly acts on (protocol/model-text.ts); programs
 * get the same data either way.
 */
import * as z from 'zod';

export const details = z.boolean().default(false).describe('Also time, mode, hash …');

export const shownDetails = z.literal(true).optional().describe('If details were asked for.');
