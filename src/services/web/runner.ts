/** Runs calls of tools that send an HTTP request or open a page. */
import { inTime } from '../../pipeline/execute/read-only-run.ts';
import type { Runner } from '../../pipeline/execute/runner.ts';
import { runFetch } from './fetch.ts';
import { type PageParts, runPage } from './page.ts';
import { runVisit, type VisitParts } from './visit.ts';

export type WebParts = PageParts & VisitParts;

export const webRunner = (parts: WebParts): Runner<'web'> => ({
  run({ visit, request, read }, call, hooks) {
    const page = visit?.(call.checked.input as never);
    if (page) return inTime(call, parts, () => runVisit(page, call, { parts, hooks }));
    const asked = request?.(call.checked.input as never);
    return asked && inTime(call, parts, () => (read ? runPage : runFetch)(asked, call, { parts, hooks }));
  },
});
