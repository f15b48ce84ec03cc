// Write an allowlist, see a sandbox blocked, allow it from the denial in two clicks, see it pass.
const { check, heading, play } = require('./console.cjs');

play(async journey => {
  const page = await journey.first();
  await journey.policy(page, 'web', 'version: 1\negress:\n  - host: other.test\n');
  await journey.server(page, 'asker', "curl -s -m 60 -w 'answer=%{http_code}\\n' http://wanted.test/wanted", 'web');
  await journey.run(page, 'asker');
  check(!(await page.innerText('main')).includes('answer=200'), 'it was not blocked');
  await journey.shot(page, 'blocked');

  await journey.to(page, '/');
  await journey.shot(page, 'waiting');
  // The first click: the editor, with the rule in it. The second: saved.
  await journey.click(page, 'link', /^Allow this host/);
  await heading(page, 'Edit web');
  check((await page.getByLabel('Document').inputValue()).includes('wanted.test'), 'no rule');
  await journey.shot(page, 'rule');
  await journey.click(page, 'button', 'Save and put in force');
  await heading(page, 'web');
  check((await page.innerText('main')).includes('wanted.test'), 'it is not saved');

  await journey.run(page, 'asker');
  await journey.until(page, async () => (await page.innerText('main')).includes('answer=200'));
  await journey.shot(page, 'passed');
  // From what was allowed to the rule that let it pass, in one click.
  await journey.to(page, '/audit?verdict=allow&event=request');
  await journey.go(page, () => page.getByRole('table').getByRole('link').first().click());
  await heading(page, 'wanted.test');
  await journey.shot(page, 'record');
  await journey.click(page, 'link', 'The rule that let it pass');
  check((await page.locator('.source mark').innerText()).includes('wanted.test'), 'not the rule');
  await journey.to(page, '/');
  check(await page.getByRole('link', { name: /^Allow this host/ }).count() === 0, 'it waits still');
});
