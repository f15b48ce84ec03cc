// From the printed link to a signed-in admin, out and in again; the link works once.
const { CONSOLE, PASSWORD, PHONE, check, heading, play } = require('./console.cjs');

play(async journey => {
  const page = await journey.person();
  await journey.to(page, process.env.GIG_TEST_SETUP);
  await journey.shot(page, 'link');
  await page.getByLabel('Your name').fill('ana');
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await page.getByLabel('Password again').fill('another one altogether');
  const refused = await journey.click(page, 'button', 'Make the first admin');
  check(refused.status() === 400, `two passwords: ${refused.status()}`);
  await page.getByRole('alert').filter({ hasText: 'not the same' }).waitFor();
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await page.getByLabel('Password again').fill(PASSWORD);
  await journey.click(page, 'button', 'Make the first admin');
  await heading(page, 'Overview');
  await journey.shot(page, 'overview');
  await journey.click(page, 'button', 'Sign out');
  await heading(page, 'Sign in');
  await journey.signIn(page, 'ana', PASSWORD);

  // Somebody else with the same link, at a phone.
  const late = await journey.person({ viewport: PHONE, colorScheme: 'dark' });
  await journey.to(late, process.env.GIG_TEST_SETUP);
  await late.getByLabel('Your name').fill('eve');
  await late.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await late.getByLabel('Password again').fill(PASSWORD);
  const gone = await journey.click(late, 'button', 'Make the first admin');
  check(gone.status() >= 400, `a used link: ${gone.status()}`);
  await late.getByRole('alert').waitFor();
  await journey.shot(late, 'late');
  await journey.to(late, '/');
  check(late.url().startsWith(`${CONSOLE}/sign-in`), late.url());
});
