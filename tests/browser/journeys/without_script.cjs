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
  // Teams, by keys alone.
  await journey.to(page, '/people');
  await page.getByText('Make a team').press('Enter');
  await page.getByLabel('Its name').fill('data');
  await page.getByLabel('Who is of it').fill('Ana ben');
  await journey.go(page, () => page.getByRole('button', { name: 'Make the team' }).press('Enter'));
  check((await page.innerText('main')).includes('team data'), 'nobody asked for two people');
  await journey.to(page, '/audit');
  await page.getByLabel('Verdict').selectOption('deny');
  await journey.click(page, 'button', 'Search');
  check(new URL(page.url()).searchParams.get('verdict') === 'deny', page.url());
  check((await page.innerText('main')).includes('telemetry.example.net'), 'not found');
});
