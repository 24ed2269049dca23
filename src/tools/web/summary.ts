/** Answers of a model about what was read, in place of the text: for agents whose context is worth more than the page. */
import * as z from 'zod';
import { rare } from '../rare-parameters.ts';

/** The profile of `agents` in config.yaml whose model answers. */
export const SUMMARY_PROFILE = 'summary';
/** Characters that the model is given. */
const TEXT_CHARS_MAX = 100_000;

export const summarize = rare(
  z
    .string()
    .min(1)
    .max(2_000)
    .optional()
    .describe('What to find out: the model of the profile `summary` answers it, in `summary`.'),
);
export const summary = z.string().optional().describe('What the model answered to `summarize`.');

/** What a model is asked about a result, and the result without what its answer replaces. */
export interface Summarized<Data> {
  readonly question: string;
  readonly text: string;
  readonly data: Data;
}

export const summarizedBy = <Data>(
  { summarize: question }: { readonly summarize?: string | undefined },
  text: string,
  data: Data,
): Summarized<Data> | undefined =>
  question === undefined ? undefined : { question, text: text.slice(0, TEXT_CHARS_MAX), data };
