/** The fleet whose panel this page is; undefined on the page of one daemon. */
import { signal } from '@preact/signals';

export const fleet = signal<string | undefined>(undefined);

/** The node of a question of the fleet. */
export const nodeOf = (approvalId: string): string => approvalId.slice(0, approvalId.indexOf('/'));
