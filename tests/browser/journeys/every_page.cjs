// Every page, light and dark: axe-core finds nothing serious, nothing scrolls sideways on a phone.
const { DESKTOP, PHONE, axe, check, fits, play } = require('./console.cjs');
const everyPage = require('./pages.cjs');
const furnish = require('./furnish.cjs');

play(async journey => {
  const page = await furnish(journey);
  const bad = [];
  const look = async (page, kind) => {
    const name = kind.replace(/[^a-z]+/g, '-').replace(/^-|-$/g, '') || 'overview';
    for (const [width, viewport] of [['desktop', DESKTOP], ['phone', PHONE]]) {
      await page.setViewportSize(viewport);
      await fits(page).catch(error => bad.push(String(error)));
      // A table that is stacked on a phone shows all of itself there; Health is one.
      const cut = () => [...document.querySelectorAll('.scroll:has(table.stack), [aria-label="Health"]')]
        .filter(one => one.scrollWidth > one.clientWidth).map(one => one.getAttribute('aria-label'));
      if (width === 'phone') bad.push(...(await page.evaluate(cut)).map(one => `${page.url()}: ${one} is cut off`));
      // What can be pressed is in sight, however wide the rest of its table is.
      const hidden = () => [...document.querySelectorAll('.scroll')].flatMap(region => {
        const edge = region.getBoundingClientRect().right + 1;
        const controls = [...region.querySelectorAll('button, select, input, a.button')];
        return controls.filter(one => one.checkVisibility() && one.getBoundingClientRect().right > edge)
          .map(one => `${region.getAttribute('aria-label')}: ${one.textContent.trim() || one.name}`);
      });
      for (const narrower of width === 'desktop' ? [0, 256] : [0]) {
        await page.setViewportSize({ ...viewport, width: viewport.width - narrower });
        bad.push(...(await page.evaluate(hidden)).map(one => `${page.url()}: out of sight at ${viewport.width - narrower}: ${one}`));
      }
      // The narrowest phone, and what a window of 1366 is when it shows everything at twice its size.
      for (const other of width === 'desktop' ? [683, 768] : [320]) {
        await page.setViewportSize({ ...viewport, width: other });
        await fits(page).catch(error => bad.push(String(error)));
        bad.push(...(await page.evaluate(hidden)).map(one => `${page.url()}: out of sight at ${other}: ${one}`));
      }
      await page.setViewportSize(viewport);
      for (const colorScheme of ['light', 'dark']) {
        await page.emulateMedia({ colorScheme });
        // Only the colours differ at another width.
        if (width === 'desktop' || colorScheme === 'light') bad.push(...(await axe(page)).map(one => `${width} ${colorScheme}: ${one}`));
        await journey.shot(page, `${name}-${width}-${colorScheme}`);
      }
    }
  };
  const stranger = await journey.person();
  await journey.to(stranger, '/sign-in');
  await look(stranger, 'sign-in');
  await journey.to(stranger, process.env.GIG_TEST_SETUP);
  await look(stranger, 'set-up');
  const seen = await everyPage(journey, page, look);
  check(seen.length >= 20, `only ${seen.length} kinds of pages: ${seen}`);
  check(bad.length === 0, `${bad.length} findings:\n${bad.join('\n')}`);
});
