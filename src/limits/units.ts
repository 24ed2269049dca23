/** Units of bounds. */
import * as z from 'zod';

export const KiB = 1024;
export const MiB = 1024 * KiB;
export const bytes = () => z.int().min(1);
export const ms = () => z.int().min(1);
export const count = () => z.int().min(1);
