// What is recorded is seen as it is recorded, paused and gone on with; and what a filter leaves out is not.
const { PASSWORD, check, heading, play } = require('./console.cjs');

play(async journey => {
  const page = await journey.first();
  await journey.click(page, 'link', 'Live');
  await heading(page, 'Live traffic');
  const state = page.getByRole('status');
  await state.getByText('Live.', { exact: true }).waitFor();
  const rows = page.getByRole('row').filter({ hasText: 'sign_in' }).filter({ hasText: 'ana' });
  const before = await rows.count();
  const other = await journey.person();
  await journey.signIn(other, 'ana', PASSWORD);
  await rows.nth(before).waitFor();
  await page.getByRole('button', { name: 'Pause' }).click();
  const third = await journey.person();
  await journey.signIn(third, 'ana', PASSWORD);
  await state.getByText('1 record waits.').waitFor();
  check(await rows.count() === before + 1, 'it was shown while it was paused');
  await journey.shot(page, 'paused');
  await page.getByRole('button', { name: 'Go on' }).click();
  await rows.nth(before + 1).waitFor();
  await journey.shot(page, 'live');
  // Newest first, and one click to all that it says.
  await journey.go(page, () => rows.first().getByRole('link').first().click());
  check(/^\/audit\//.test(new URL(page.url()).pathname), page.url());
  // Only what was asked for.
  await journey.to(page, '/live?verdict=deny');
  await state.getByText('Live.', { exact: true }).waitFor();
  const wrong = await journey.person();
  await journey.to(wrong, '/sign-in');
  await wrong.getByLabel('Name', { exact: true }).fill('ana');
  await wrong.getByLabel('Password').fill('not her password');
  await journey.click(wrong, 'button', 'Sign in');
  await page.getByRole('row').filter({ hasText: 'denied' }).first().waitFor();
  check(await page.getByText('allowed', { exact: true }).count() === 1, 'only the choice of verdicts says so');
});
