/** What a call printed, as it comes: the newest part of it, with its colours. */
import { useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { request } from '../connection.ts';
import { type Ink, PLAIN, type Span, spansOf } from '../parts/ansi.ts';
import { TextBlock } from '../parts/text-block.tsx';

/** Most spans that are shown; what came before is told to be left out. */
const SPANS_MAX = 3_000;
/** Milliseconds that the daemon waits for more before it answers. */
const WAIT_MS = 20_000;

interface Shown {
  readonly spans: readonly Span[];
  readonly isCut: boolean;
}

export function Output({ callId, session }: { callId: string; session: string | undefined }) {
  const shown = useSignal<Shown>({ spans: [], isCut: false });
  useEffect(() => {
    const left = new AbortController();
    shown.value = { spans: [], isCut: false };
    void follow({ callId, session }, left.signal, (spans) => {
      const all = [...shown.value.spans, ...spans];
      shown.value = { spans: all.slice(-SPANS_MAX), isCut: shown.value.isCut || all.length > SPANS_MAX };
    });
    return () => left.abort();
  }, [callId, session]);
  const { spans, isCut } = shown.value;
  if (spans.length === 0) return null;
  return (
    <section>
      <h2>Output</h2>
      {isCut && <p class="dim">The beginning is not shown here: `ringfence logs {callId}` has it.</p>}
      <TextBlock label="Output" kind="output">
        {spans.map(({ text, kind }) => (kind ? <span class={kind}>{text}</span> : text))}
      </TextBlock>
    </section>
  );
}

/** Reads the output of a call up to its end. A call without output, or whose output is no longer kept, shows nothing. */
async function follow(
  of: { callId: string; session: string | undefined },
  left: AbortSignal,
  add: (spans: Span[]) => void,
): Promise<void> {
  const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  const inks: Record<'stdout' | 'stderr', Ink> = { stdout: PLAIN, stderr: PLAIN };
  for (let afterSeq = 0; !left.aborted; ) {
    const page = await request('results.read', { ...of, afterSeq, waitMs: WAIT_MS }).catch(() => undefined);
    if (!page || left.aborted || !('entries' in page)) return;
    const spans = page.entries.flatMap(({ stream, data }) => {
      // The JSON subprotocol has bytes as base64.
      const bytes = Uint8Array.from(atob(data as unknown as string), (it) => it.charCodeAt(0));
      const part = spansOf(decoders[stream].decode(bytes, { stream: true }), inks[stream]);
      inks[stream] = part.ink;
      return part.spans;
    });
    if (spans.length > 0) add(spans);
    afterSeq = page.seq;
    if (page.eof) return;
  }
}
