// Every page is read, and a form is sent, by a browser that runs no script.
const { PASSWORD, PHONE, check, play } = require('./console.cjs');
const everyPage = require('./pages.cjs');
const furnish = require('./furnish.cjs');

play(async journey => {
  await furnish(journey);
  const page = await journey.person({ javaScriptEnabled: false, viewport: PHONE });
  await journey.signIn(page, 'ana', PASSWORD);
  const seen = await everyPage(journey, page, async (page, kind) => {
    const text = await page.innerText('main');
    check(text.trim().length > 40, `${kind} says nothing: ${text}`);
    check(!/requires? JavaScript|enable JavaScript/i.test(text), kind);
  });
  check(seen.length >= 20, `only ${seen.length} kinds of pages: ${seen}`);
  // A team, by keys alone; it waits for a second person.
  await journey.to(page, '/people');
  await page.getByLabel('Of team data').fill('Ana\nben');
  const form = page.getByRole('form', { name: 'Team data' });
  await journey.go(page, () => form.getByRole('button', { name: 'Save' }).press('Enter'));
  check((await page.innerText('main')).includes('Of team data: ana, ben'), await page.innerText('main'));
  await journey.to(page, '/audit');
  await page.getByLabel('Verdict').selectOption('deny');
  await journey.click(page, 'button', 'Search');
  check(new URL(page.url()).searchParams.get('verdict') === 'deny', page.url());
  check((await page.innerText('main')).includes('telemetry.example.net'), 'not found');
});
