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
  await journey.to(page, '/people');
  await heading(page, 'People');
});
