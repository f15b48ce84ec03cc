// A document is checked while it is typed: its mistakes with their lines, marked beside them, and gone
// when they are mended. Nothing is pressed.
const { check, heading, play } = require('./console.cjs');

play(async journey => {
  const page = await journey.first();
  await journey.to(page, '/policies/web/edit');
  await heading(page, 'New policy web');
  const area = page.getByLabel('Document');
  const typed = page.locator('#typed');
  await area.fill('version: 1\negress:\n  - hots: a.example\n');
  await typed.getByText('This is not a valid policy').waitFor();
  check((await typed.innerText()).includes('did you mean'), await typed.innerText());
  check(await page.locator('#gutter b.bad').innerText() === '3', 'the line is not marked');
  await journey.shot(page, 'wrong');
  // By keys: to where it is, and mended there.
  await typed.getByRole('button').first().click();
  check(await page.evaluate(() => document.activeElement.id === 'document'), 'the place is not gone to');
  for (let letter = 0; letter < 4; letter += 1) await page.keyboard.press('Delete');
  await page.keyboard.type('host');
  await typed.getByText('Valid. Nothing is saved yet.').waitFor();
  check(await page.locator('#gutter b.bad').count() === 0, 'it is marked still');
  check((await area.inputValue()).includes('- host: a.example'), await area.inputValue());
  // Legal, and hardly meant.
  await area.fill('version: 1\negress:\n  - host: a.example\n  - host: a.example\n');
  await typed.getByText('Hardly meant').waitFor();
  check(await page.locator('#gutter b.warn').count() > 0, 'the finding is not marked');
  // What is typed is text, whatever it is.
  await area.fill("version: 1\negress:\n  - '<img src=x onerror=alert(1)>': 1\n");
  await typed.getByText('onerror').waitFor();
  check(await typed.locator('img').count() === 0, 'markup');
  await journey.shot(page, 'typed');
  // Nothing that was typed is lost by a slip, and nobody is asked about what is saved.
  const asked = [];
  page.on('dialog', dialog => {
    asked.push(dialog.type());
    return asked.length === 1 ? dialog.dismiss() : dialog.accept();
  });
  const slip = () => page.evaluate(() => { location.href = '/servers'; });
  await slip();
  await page.waitForFunction(() => document.activeElement !== null);
  for (const begun = Date.now(); asked.length === 0;) {
    check(Date.now() - begun < 60000, 'nobody is asked');
    await page.waitForTimeout(50);
  }
  check(asked[0] === 'beforeunload', asked.join());
  check((await area.inputValue()).includes('onerror'), 'what was typed is gone');
  await area.fill('version: 1\negress:\n  - host: a.example\n');
  // What is looked at is not saved yet.
  await journey.click(page, 'button', 'Check');
  check(asked.length === 1, 'asked about what is sent');
  await journey.go(page, slip);
  check(asked.length === 2, 'not asked about what was checked and is not saved');
  await heading(page, 'Servers');
  await journey.to(page, '/policies/web/edit');
  await area.fill('version: 1\negress:\n  - host: a.example\n');
  await journey.click(page, 'button', 'Save');
  await journey.to(page, '/policies/web/edit');
  await journey.go(page, slip);
  check(asked.length === 2, 'asked about what is saved');
  // What was sent and did not arrive is found again in this tab.
  await journey.to(page, '/policies/web/edit');
  check(await page.getByRole('button', { name: 'Put it back' }).count() === 0, 'what is saved is offered');
  await area.fill('version: 1\negress:\n  - host: lost.example\n');
  const edit = '**/policies/web/edit';
  await page.route(edit, route => route.request().method() === 'POST' ? route.fulfill({ body: 'away for a moment' }) : route.continue());
  await page.getByRole('button', { name: 'Save', exact: true }).first().click();
  await page.getByText('away for a moment').waitFor();
  await page.unroute(edit);
  await journey.to(page, '/policies/web/edit');
  check(!(await area.inputValue()).includes('lost.example'), 'it was saved');
  await page.getByRole('button', { name: 'Put it back' }).click();
  check((await area.inputValue()).includes('- host: lost.example'), await area.inputValue());
  // To who sent it alone.
  const kept = await page.evaluate(() => Object.keys(sessionStorage).join());
  check(kept === 'gig:sent:ana:web', kept);
  // Enter in a field of the simulation simulates.
  await page.locator('#days').fill('30');
  await journey.go(page, () => page.locator('#days').press('Enter'));
  await page.getByRole('heading', { name: 'With what was recorded in the last 30 days' }).waitFor();
});
