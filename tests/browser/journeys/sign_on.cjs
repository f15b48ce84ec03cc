// Somebody of the company signs in where they sign in everywhere else, in a browser that keeps cookies by
// its own rules, and comes to where they wanted to go. Nobody gets in by an address that was seen.
const { CONSOLE, check, heading, play } = require('./console.cjs');

play(async journey => {
  const admin = await journey.first();
  const provider = new URL(process.env.GIG_TEST_PROVIDER).origin;
  const page = await journey.person({ also: provider });
  await journey.to(page, '/people');
  await heading(page, 'Sign in');
  const back = [];
  page.on('request', asked => { if (asked.url().includes('/callback')) back.push(asked.url()); });
  await journey.shot(page, 'sign_in');
  await journey.click(page, 'link', `Sign in with ${new URL(provider).host}`);
  await heading(page, 'People');
  check(page.url() === `${CONSOLE}/people`, page.url());
  await journey.shot(page, 'signed_on');
  const own = page.getByRole('row').filter({ hasText: 'this one' });
  check((await own.innerText()).includes('single sign-on'), 'how it began is not said');
  check(await page.getByText('Change your password').count() === 0, 'they have no password here');
  check(!(await page.context().cookies()).some(cookie => cookie.name.includes('sso')), 'the round is not over');

  // Who runs gig reads by whom people sign in, and how that was.
  const host = new URL(provider).host;
  await journey.to(admin, '/settings');
  check((await admin.locator('main').innerText()).includes(`by ${provider}`), 'the provider is not named');
  await journey.to(admin, '/');
  check((await admin.locator('main').innerText()).includes(`${host} vouched for somebody last at`), 'nothing of it under Health');

  // Somebody saw where the provider sent them.
  check(back.length === 1, `${back.length} answers`);
  const other = await journey.person();
  const answer = await other.goto(back[0]);
  check(answer.status() === 403, `${answer.status()}`);
  await journey.to(other, '/policies');
  await heading(other, 'Sign in');

  await journey.click(page, 'button', 'Sign out');
  await heading(page, 'Sign in');
});
