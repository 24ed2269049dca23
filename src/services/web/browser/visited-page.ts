/** What a browser host says of the page that it opened. */
import * as z from 'zod';
import type { Limits } from '../../../base/limits.ts';
import { NOTE_CHARS_MAX, NOTES_MAX, TITLE_CHARS_MAX, URL_CHARS_MAX } from './messages.ts';

/** The schema of what a browser host says of a page, with its bounds: a hostile page may have taken the host over. */
export const visitedPage = ({ pageBytesMax, screenshotBytesMax, browserConsoleMax, browserConsoleChars }: Limits) =>
  z.strictObject({
    status: z.int().min(0).max(999),
    /** Address that is shown, after redirects and navigations. */
    finalUrl: z.string().max(URL_CHARS_MAX),
    title: z.string().max(TITLE_CHARS_MAX),
    contentType: z.string().max(200).optional(),
    notes: z.array(z.string().max(NOTE_CHARS_MAX)).max(NOTES_MAX),
    console: z.array(z.string().max(browserConsoleChars)).max(browserConsoleMax),
    html: bytesUpTo(pageBytesMax).optional(),
    isCut: z.boolean(),
    image: z
      .strictObject({
        format: z.enum(['png', 'jpeg']),
        width: z.int().min(1),
        height: z.int().min(1),
        bytes: bytesUpTo(screenshotBytesMax),
      })
      .optional(),
  });

export type VisitedPage = z.output<ReturnType<typeof visitedPage>>;

const bytesUpTo = (bytesMax: number) =>
  z.custom<Uint8Array>((it) => it instanceof Uint8Array && it.length <= bytesMax, `takes up to ${bytesMax} bytes`);
