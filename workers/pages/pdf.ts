/** The text of a PDF, page by page. */
import { ToolError } from '../../src/base/errors.ts';
import type { Limits } from '../../src/base/limits.ts';

export interface PdfText {
  readonly pages: readonly string[];
  readonly total: number;
  readonly title?: string;
}

/**
 * Reads pages until the bounds, of which CPU time is one: `usedMs` gives what reading has taken so far. Throws
 * UNSUPPORTED if the PDF is broken or needs a password.
 */
export async function readPdf(bytes: Uint8Array, limits: Limits, usedMs: () => number): Promise<PdfText> {
  const { getDocumentProxy } = await import('unpdf');
  // A copy: pdf.js takes the memory that it is given.
  const document = await getDocumentProxy(new Uint8Array(bytes), SETTINGS).catch((error: Error) => {
    throw new ToolError('UNSUPPORTED', `the PDF can't be read: ${error.message.slice(0, 200)}`);
  });
  try {
    const pages: string[] = [];
    let chars = 0;
    while (pages.length < Math.min(document.numPages, limits.pdfPagesMax)) {
      const text = await pageText(document, pages.length + 1);
      pages.push(text);
      chars += text.length;
      if (chars > limits.pageTextCharsMax || usedMs() > limits.pageCpuMs * TIME_SHARE) break;
    }
    const { info } = await document.getMetadata().catch(() => ({ info: {} }));
    const { Title: title } = info as { Title?: unknown };
    return { pages, total: document.numPages, ...(typeof title === 'string' && title !== '' && { title }) };
  } finally {
    await document.loadingTask.destroy();
  }
}

/** The part of the CPU time after which no further page is begun. */
const TIME_SHARE = 0.6;

/** Neither programs nor fonts of the PDF are run. */
const SETTINGS = { isEvalSupported: false, disableFontFace: true, useSystemFonts: false, verbosity: 0 } as const;

type PdfDocument = Awaited<ReturnType<typeof import('unpdf')['getDocumentProxy']>>;

/** Lines as the PDF ends them; an empty line where it leaves more room than a line has. */
async function pageText(document: PdfDocument, number: number): Promise<string> {
  const page = await document.getPage(number);
  const { items } = await page.getTextContent();
  page.cleanup();
  const lines: string[] = [''];
  let lastTop: number | undefined;
  for (const it of items) {
    if (!('str' in it)) continue;
    const [, , , , , top = 0] = it.transform as number[];
    if (lines.at(-1) === '' && it.str.trim() !== '') {
      if (lastTop !== undefined && lastTop - top > PARAGRAPH_LINES * it.height && it.height > 0) lines.push('');
      lastTop = top;
    }
    lines[lines.length - 1] += it.str;
    if (it.hasEOL) lines.push('');
  }
  return lines
    .join('\n')
    .replace(/[ \t]+\n/g, '\n')
    .replace(/\n{3,}/g, '\n\n')
    .trim();
}

const PARAGRAPH_LINES = 1.8;
