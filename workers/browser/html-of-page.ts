/**
 * The expression that gives a shown page as HTML. It marks as hidden what a person would not see, so that text that only a model would
 * read is left out as in pages that are not rendered. Closed details are opened: a person would read them.
 *
 * Text below the edge of a box that cuts it off, such as the rest of an article or the next picture of a row, counts as shown.
 */
export const htmlOfPage = (charsMax: number): string => `(() => {
  for (const it of document.querySelectorAll('details')) it.open = true;
  const seen = { visibilityProperty: true, opacityProperty: true };
  const cuts = (it) => it === 'hidden' || it === 'clip';
  const NONE_LEFT = /^(?:inset\\((?:[5-9]\\d|\\d{3,})(?:\\.\\d+)?%|(?:circle|ellipse)\\(0|polygon\\((?:([^,]+)(?:, (?=\\1[,)]))?)+\\)$)/;
  const isHidden = (it) => {
    const style = getComputedStyle(it);
    if (style.display !== 'contents' && !it.checkVisibility(seen)) return true;
    if (style.opacity < 0.05 || NONE_LEFT.test(style.clipPath)) return true;
    const [, top, right, bottom, left] = /^rect\\((\\S+)px, (\\S+)px, (\\S+)px, (\\S+)px\\)$/.exec(style.clip) || [];
    if (top !== undefined && (right - left <= 1 || bottom - top <= 1)) return true;
    if (style.display.startsWith('inline') && style.display !== 'inline-block') return false;
    return (cuts(style.overflowX) && it.clientWidth <= 1) || (cuts(style.overflowY) && it.clientHeight <= 1);
  };
  const root = document.documentElement;
  const isFixed = [root, document.body].some((it) => it && cuts(getComputedStyle(it).overflowX));
  const width = isFixed ? innerWidth : Math.max(innerWidth, root ? root.scrollWidth : 0);
  const range = document.createRange();
  const isUnseen = (text) => {
    range.selectNodeContents(text);
    const places = [...range.getClientRects()];
    const isShown = (it) => it.width >= 1 && it.height >= 2 && it.right + scrollX > 0 && it.bottom + scrollY > 0 && it.left + scrollX < width;
    return places.length > 0 && !places.some(isShown);
  };
  const elements = [...document.querySelectorAll('body *')].filter(isHidden);
  const texts = [];
  const walker = document.createTreeWalker(document.body || document, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) if (walker.currentNode.data.trim() !== '' && isUnseen(walker.currentNode)) texts.push(walker.currentNode);
  for (const it of elements) it.setAttribute('hidden', '');
  for (const it of texts) {
    const cover = document.createElement('span');
    cover.setAttribute('hidden', '');
    it.replaceWith(cover);
    cover.append(it);
  }
  return (root ? root.outerHTML : '').slice(0, ${charsMax});
})()`;
