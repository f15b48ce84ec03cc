// The record is searched without a mouse: only keys are pressed. What was found is exported.
const fs = require('fs');
const { PATIENCE, check, heading, play } = require('./console.cjs');

// Goes by Tab to what is wanted; where the focus is, is seen.
async function tab(page, wanted) {
  for (let steps = 0; steps < 200; steps++) {
    await page.keyboard.press('Tab');
    const at = await page.evaluate(() => {
      const one = document.activeElement;
      const label = one.labels && one.labels.length ? one.labels[0].innerText : one.innerText || '';
      return { label: label.trim(), outline: getComputedStyle(one).outlineStyle };
    });
    if (at.label !== wanted) continue;
    check(at.outline !== 'none', `nobody sees that ${wanted} has the focus`);
    return;
  }
  throw new Error(`no Tab leads to ${wanted} on ${page.url()}`);
}

play(async journey => {
  const page = await journey.first();
  await journey.policy(page, 'web', 'version: 1\negress: []\n');
  await journey.server(page, 'asker', 'curl -s -m 60 http://first.test/; curl -s -m 60 http://second.test/', 'web');
  await journey.run(page, 'asker');

  await journey.to(page, '/');
  await page.keyboard.press('Tab');
  check(await page.evaluate(() => document.activeElement.innerText) === 'Skip to content', 'no way past the menu');
  await tab(page, 'Record');
  await journey.go(page, () => page.keyboard.press('Enter'));
  await heading(page, 'Record');
  await tab(page, 'Words');
  await page.keyboard.type('second');
  await tab(page, 'Verdict');
  await page.keyboard.type('denied');
  await tab(page, 'Search');
  await journey.shot(page, 'focus');
  await journey.go(page, () => page.keyboard.press('Enter'));
  const found = await page.getByRole('region', { name: 'Records' }).innerText();
  check(found.includes('second.test') && !found.includes('first.test'), found);
  await journey.shot(page, 'found');
  await tab(page, 'CSV');
  const [file] = await Promise.all([page.waitForEvent('download', { timeout: PATIENCE }), page.keyboard.press('Enter')]);
  check(file.suggestedFilename() === 'gig-record.csv', file.suggestedFilename());
  const lines = fs.readFileSync(await file.path(), 'utf8').trim().split('\n');
  check(lines[0].includes('host') && lines.length > 1, lines.join('\n'));
  check(lines.slice(1).every(line => line.includes('second.test') && line.includes('deny')), lines.join('\n'));
  // One record, and all of the same request.
  await journey.go(page, () => page.getByRole('table').getByRole('link').first().click());
  await journey.click(page, 'link', 'Everything of the same connection');
  check((await page.innerText('main')).includes('second.test'), 'not the same connection');
  // That somebody took records away is on record.
  await journey.to(page, '/audit?event=admin');
  await page.getByText('record exported as csv').first().waitFor();
});
