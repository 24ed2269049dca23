/** Contact sheets: a page of small pictures, and how much two of them differ, drawn and counted by a browser. */
import type { Browser } from 'playwright-core';

/** Pixels of the page for one of a sheet, in each direction; a text is a gray bar then. */
const SCALE = 6;
/** Side of the squares whose mean colours are compared, in pixels of the sheet: clocks and ids that change don't count. */
const SQUARE = 5;
/** By how much a mean of red, green or blue may differ, of 255. */
const COLOUR = 6;

/** A sheet as PNG: the pictures beside each other, in order, each reduced. They have one size. */
export const sheetOf = async (browser: Browser, pictures: readonly Buffer[]): Promise<Buffer> =>
  Buffer.from((await run(browser, draw, [pictures.map(urlOf), SCALE])).split(',')[1] as string, 'base64');

/** Share of the squares that differ, 0 to 1, of each picture of two sheets; 1 where their sizes differ. */
export const difference = (browser: Browser, before: Buffer, after: Buffer, pictures: number): Promise<number[]> =>
  run(browser, compare, [urlOf(before), urlOf(after), pictures, SQUARE, COLOUR]);

const urlOf = (png: Buffer): string => `data:image/png;base64,${png.toString('base64')}`;

async function run<A extends unknown[], T>(browser: Browser, work: (args: A) => Promise<T>, args: A): Promise<T> {
  const page = await browser.newPage();
  try {
    return await page.evaluate(work as (args: unknown) => Promise<T>, args);
  } finally {
    await page.close();
  }
}

/** Runs in the browser. */
async function draw([urls, scale]: [string[], number]): Promise<string> {
  const images = await Promise.all(
    urls.map(async (src) => {
      const image = Object.assign(new Image(), { src });
      await image.decode();
      return image;
    }),
  );
  const [width, height] = [images[0]?.width, images[0]?.height].map((it = 0) => Math.round(it / scale)) as [
    number,
    number,
  ];
  const canvas = Object.assign(document.createElement('canvas'), { width: width * images.length, height });
  const context = canvas.getContext('2d') as CanvasRenderingContext2D;
  context.imageSmoothingQuality = 'high';
  for (const [at, image] of images.entries()) context.drawImage(image, at * width, 0, width, height);
  return canvas.toDataURL();
}

/** Runs in the browser. */
async function compare([before, after, pictures, square, colour]: [string, string, number, number, number]) {
  const [one, other] = await Promise.all(
    [before, after].map(async (src) => {
      const image = Object.assign(new Image(), { src });
      await image.decode();
      const [width, height] = [Math.floor(image.width / square), Math.floor(image.height / square)];
      const canvas = Object.assign(document.createElement('canvas'), { width, height });
      const context = canvas.getContext('2d') as CanvasRenderingContext2D;
      context.imageSmoothingQuality = 'high';
      context.drawImage(image, 0, 0, width, height);
      return { width, height, data: context.getImageData(0, 0, width, height).data };
    }),
  );
  if (!one || !other || one.width !== other.width || one.height !== other.height) return Array(pictures).fill(1);
  const wide = one.width / pictures;
  const changed = Array<number>(pictures).fill(0);
  for (let at = 0; at < one.width * one.height; at += 1)
    if ([0, 1, 2].some((it) => Math.abs((one.data[at * 4 + it] ?? 0) - (other.data[at * 4 + it] ?? 0)) > colour))
      changed[Math.floor((at % one.width) / wide)] = (changed[Math.floor((at % one.width) / wide)] ?? 0) + 1;
  return changed.map((it) => it / (wide * one.height));
}
