// A session in another browser is found and ended; that browser is asked to sign in.
const { CONSOLE, PASSWORD, PHONE, check, heading, play } = require('./console.cjs');

play(async journey => {
  const page = await journey.first();
  const other = await journey.person({ viewport: PHONE, colorScheme: 'dark' });
  await journey.signIn(other, 'ana', PASSWORD);
  await journey.to(page, '/people');
  await journey.shot(page, 'sessions');
  const own = page.getByRole('row').filter({ hasText: 'this one' });
  check(await own.count() === 1, 'not one session is its own');
  const theirs = page.getByRole('row').filter({ has: page.getByRole('link', { name: 'End session of ana' }) }).filter({ hasNotText: 'this one' });
  check(await theirs.count() === 1, 'not one other session');
  await journey.click(page, 'link', 'End session of ana', theirs);
  // Nothing has ended by looking at what would.
  await journey.to(other, '/policies');
  await heading(other, 'Policies');
  await journey.shot(page, 'sure');
  await journey.click(page, 'button', 'End a session of ana');
  check(await theirs.count() === 0, 'it is still listed');
  await journey.to(other, '/policies');
  check(other.url().startsWith(`${CONSOLE}/sign-in`), other.url());
  await heading(other, 'Sign in');
  // Signed in again, they come to where they wanted to go.
  await other.getByLabel('Name', { exact: true }).fill('ana');
  await other.getByLabel('Password').fill(PASSWORD);
  await journey.click(other, 'button', 'Sign in');
  await heading(other, 'Policies');
  // What was refused is where the browser goes, however far below it stands.
  await page.setViewportSize({ width: 900, height: 400 });
  await journey.to(page, '/people');
  await page.getByText('Make a token').click();
  await page.getByLabel('What it is for').fill('ci');
  await page.getByLabel('Scopes').fill('nonsense');
  await journey.click(page, 'button', 'Make');
  const alert = page.getByRole('alert');
  check(/no scope nonsense/.test(await alert.innerText()), await alert.innerText());
  check(await alert.evaluate(one => one === document.activeElement), 'the refusal has no focus');
  const box = await alert.boundingBox();
  check(box.y >= 0 && box.y + box.height <= 400, `the refusal is at ${box.y}`);
  // Behind a sign-out nothing of a page that was seen comes back.
  await page.setViewportSize({ width: 1280, height: 900 });
  await journey.to(page, '/people');
  await journey.click(page, 'button', 'Sign out');
  await heading(page, 'Sign in');
  await page.goBack();
  await heading(page, 'Sign in');
});
