/**
 * Keeps a click or a key that was meant for something else from answering a question: for a moment after a card has appeared
 * or moved, it takes no answer.
 */
import { signal } from '@preact/signals';
import type { RefObject } from 'preact';
import { useEffect, useLayoutEffect, useRef } from 'preact/hooks';

/** Milliseconds in which a person can't yet have read what is new under the pointer. */
const ARMING_MS = 400;

/** Ids of the questions whose cards take answers. */
const armed = signal<ReadonlySet<string>>(new Set());

/** Whether the card of this question takes answers now. */
export const isArmed = (key: string): boolean => armed.value.has(key);

const timers = new Map<string, number>();

function disarm(key: string): void {
  if (armed.peek().has(key)) armed.value = new Set([...armed.peek()].filter((it) => it !== key));
  clearTimeout(timers.get(key));
  timers.set(
    key,
    setTimeout(() => {
      timers.delete(key);
      armed.value = new Set([...armed.peek(), key]);
    }, ARMING_MS),
  );
}

function forget(key: string): void {
  clearTimeout(timers.get(key));
  timers.delete(key);
  armed.value = new Set([...armed.peek()].filter((it) => it !== key));
}

/** Watches where the cards of a list are: `data-arms` of each names its question and what it shows. */
export function useArming(list: RefObject<HTMLElement | null>): void {
  const places = useRef(new Map<string, number>());
  const look = () => {
    const cards = [...(list.current?.querySelectorAll<HTMLElement>('[data-arms]') ?? [])];
    const found = new Map(cards.map((it) => [it.dataset.arms as string, it.offsetTop]));
    for (const [key, top] of found) if (places.current.get(key) !== top) disarm(key);
    for (const key of places.current.keys()) if (!found.has(key)) forget(key);
    places.current = found;
  };
  useLayoutEffect(look);
  useEffect(() => {
    // Cards also move when something inside another one grows.
    const observer = new ResizeObserver(look);
    if (list.current) observer.observe(list.current);
    return () => {
      observer.disconnect();
      for (const key of places.current.keys()) forget(key);
    };
  }, []);
}
